"""Security: certificates of agents, and the signatures made with them."""

from posse.live.security.certificates import MOST_CERTIFICATE_BYTES as MOST_CERTIFICATE_BYTES
from posse.live.security.certificates import CertificateFiles as CertificateFiles
from posse.live.security.certificates import check_files as check_files
from posse.live.security.certificates import check_private as check_private
from posse.live.security.certificates import create_authority as create_authority
from posse.live.security.certificates import decode_certificate as decode_certificate
from posse.live.security.certificates import encode_certificate as encode_certificate
from posse.live.security.certificates import host_problem as host_problem
from posse.live.security.certificates import issue_certificate as issue_certificate
from posse.live.security.certificates import read_authorities as read_authorities
from posse.live.security.certificates import read_certificate as read_certificate
from posse.live.security.certificates import validate_name as validate_name
from posse.live.security.signatures import Vouch as Vouch
from posse.live.security.signatures import make_signer as make_signer
from posse.live.security.signatures import make_verifier as make_verifier
from posse.live.security.signatures import make_voucher as make_voucher
