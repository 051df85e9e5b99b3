#!/bin/sh
# The authority, a certificate an agent and the application's token, unless they are there.
set -e
umask 077
folder=${1:?where to write}
shift
if [ ! -e "$folder/ca.pem" ]; then
  posse certs init --folder "$folder"
fi
for name in "$@"; do
  if [ ! -e "$folder/$name.pem" ]; then
    posse certs issue "$name" --host "$name" --host localhost --folder "$folder"
  fi
done
if [ ! -e "$folder/token" ]; then
  python -c 'import secrets; print(secrets.token_hex(32))' > "$folder/token"
fi
