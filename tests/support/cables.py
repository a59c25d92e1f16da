"""A cut cable without another machine: the kernel drops what reaches one socket before it acknowledges (T67)."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import socket
import struct
import termios

ATTACH_FILTER = 26  # of asm/socket.h
DROP = struct.pack("HBBI", 0x06, 0, 0, 0)  # a filter's whole program: return 0 bytes (linux/filter.h)


async def cut(transport: asyncio.BaseTransport) -> None:
    """From now on nothing arrives there. It says nothing either, since it waits for no acknowledgement any more."""
    sock = transport.get_extra_info("socket")
    async with asyncio.timeout(60):
        while fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)) != bytes(4):  # noqa: ASYNC110 - the kernel's matter
            await asyncio.sleep(0.001)
    rules = ctypes.create_string_buffer(DROP)
    sock.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(rules)))
