#!/usr/bin/env python3
"""An Ethernet for two guests that are Linux as a program (`scripts/rxe-vm --uml --guests 2`).

    uml-wire.py [--capture FILE] COMMAND...

Becomes COMMAND, with the two ends of the wire as open descriptors, whose numbers stand in WEFT_VM_WIRE. One frame is one datagram. With
--capture, a process beside the command passes frames on and writes them to FILE (pcap); it ends when the command has ended."""
import os
import select
import socket
import struct
import sys
import time


def wire():
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ends


def pass_on(ends, capture, parent):
    """Copies frames from each end to the other until the parent is another one."""
    capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    while os.getppid() == parent:
        ready, _, _ = select.select(ends, [], [], 0.2)
        for end in ready:
            frame = end.recv(65536)
            now = time.time_ns() // 1000
            capture.write(struct.pack("<IIII", now // 1_000_000, now % 1_000_000, len(frame), len(frame)) + frame)
            try:
                ends[1 - ends.index(end)].send(frame)
            except OSError:
                pass  # That guest is gone.
        if not ready:
            capture.flush()
    capture.close()


def main():
    arguments = sys.argv[1:]
    capture = None
    if arguments[:1] == ["--capture"]:
        capture = open(arguments[1], "wb")
        arguments = arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    guests = wire()
    if capture:
        (left, left_end), (right, right_end) = wire(), guests
        guests = (left, right)
        parent = os.getpid()
        if os.fork() == 0:
            for end in guests:
                end.close()
            pass_on((left_end, right_end), capture, parent)
            os._exit(0)
    for end in guests:
        end.set_inheritable(True)
    os.environ["WEFT_VM_WIRE"] = f"{guests[0].fileno()} {guests[1].fileno()}"
    os.execvp(arguments[0], arguments)


main()
