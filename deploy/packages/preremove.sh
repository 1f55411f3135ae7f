#!/bin/sh
# The argument is "remove" of dpkg or 0 of rpm, and another one before an upgrade.
case "$1" in remove | 0) [ ! -d /run/systemd/system ] || systemctl disable --now opsgate.socket opsgate.service || true ;; esac
