"""The certificate under which the HTTP interface is served, which may be read anew."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

PathLike = str | os.PathLike[str]


class Chain:
    """A certificate's file and that of its private key, None if it is in the same file."""

    def __init__(self, certificate: PathLike, key: PathLike | None = None) -> None:
        self.certificate, self.key = Path(certificate), None if key is None else Path(key)
        self._context: ssl.SSLContext | None = None
        self._served = self._check()

    def serve(self, context: ssl.SSLContext | None) -> None:
        """Note which server has it."""
        self._context = context

    def renew(self) -> bool:
        """Take it from its files anew, for the connections to come; whether it is another one."""
        found = self._check()
        if found == self._served or self._context is None:
            return False
        self._context.load_cert_chain(self.certificate, self.key)
        self._served = found
        return True

    def _check(self) -> bytes:
        """What the files hold, tried where a bad one does no harm."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
            parts = [path.read_bytes() for path in (self.certificate, self.key) if path]
        except OSError as error:  # SSLError is one
            raise ValueError(
                f"http_certificate {self.certificate} cannot be used ({error}): it must be a PEM "
                "file, with its private key in it or in http_key"
            ) from error
        return b"".join(parts)
