#!/bin/sh
# Brings up the first network interface that is not the loopback, and gets it an address.
set -u
for path in /sys/class/net/*; do
    interface=$(basename "$path")
    [ "$interface" = lo ] && continue
    [ -e "$path/device" ] || continue
    ip link set "$interface" up
    if command -v dhclient >/dev/null 2>&1; then
        dhclient "$interface"
    elif command -v netplan >/dev/null 2>&1; then
        netplan apply
    else
        systemctl restart systemd-networkd.service
    fi
    break
done
