#!/bin/sh
# The first installation starts nothing: the configuration needs the addresses of the internal
# services.
[ ! -d /run/systemd/system ] || { systemctl daemon-reload && systemctl try-restart opsgate.service; } || true
