#!/usr/bin/env python3
"""One background server of the lab: starts it, stops it, or is it.

    service.py start --lab DIR --name NAME --role ROLE --port PORT [--upstream HOST:PORT]
    service.py stop  --lab DIR --name NAME --port PORT

A started server has a session of its own and holds nothing of its starter open, so it outlives the
step that started it. Its process id is in DIR/NAME/pid, what it says in DIR/NAME/log. `start` ends
with 0 only when the port answers, and leaves nothing behind otherwise. `stop` of what is already
gone is fine.
"""

import argparse
import hashlib
import http.server
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds, for a start as for a stop


def answers(port):
    """Whether something accepts connections on the port."""
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex((HOST, port)) == 0


def wait_for(condition):
    """Waits until the condition holds; says whether it ever did."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def command_line(pid):
    """The command line of a process, empty when there is none (a zombie has none either)."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except FileNotFoundError:
        pass
    if os.path.isdir("/proc/self"):
        return []
    said = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return said.stdout.split()


def running(a):
    """The process id of this very server, or None. A number that now is another program's is not ours."""
    try:
        pid = int((a.dir / "pid").read_text())
    except (FileNotFoundError, ValueError):
        return None
    line = command_line(pid)
    return pid if str(a.lab) in line and a.name in line else None


def stop(a):
    pid = running(a)
    if pid is not None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                break
            if wait_for(lambda: running(a) is None):
                break
        else:
            sys.exit(f"{a.name}: process {pid} does not end")
    for leaf in ("pid", "port", "log"):
        (a.dir / leaf).unlink(missing_ok=True)
    try:
        a.dir.rmdir()
    except OSError:
        pass  # somebody else's files are in it, or it is gone already
    if pid is not None:
        print(f"{a.name}: stopped process {pid}")


def start(a):
    stop(a)
    if not a.lab.is_dir():
        sys.exit(f"{a.name}: there is no lab at {a.lab}")
    if answers(a.port):
        sys.exit(f"{a.name}: port {a.port} is taken by another program")
    a.dir.mkdir(mode=0o700, exist_ok=True)
    (a.dir / "port").write_text(f"{a.port}\n")
    child = os.fork()
    if child == 0:
        become_server(a)  # does not return
    os.waitpid(child, 0)
    if wait_for(lambda: running(a) is not None and answers(a.port)):
        print(f"{a.name}: process {running(a)} answers on {HOST}:{a.port}")
        return
    log = a.dir / "log"
    said = log.read_text()[-2000:] if log.exists() else "nothing"
    stop(a)
    sys.exit(f"{a.name}: does not answer on {HOST}:{a.port}; it said: {said}")


def become_server(a):
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(a.dir / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 1024)
    os.chdir("/")
    try:
        server = tunnel(a) if a.role == "tunnel" else web(a)
        partial = a.dir / "pid.partial"
        partial.write_text(f"{os.getpid()}\n")
        partial.rename(a.dir / "pid")
        server()
    except BaseException as fault:  # the log is all that is left to say it to
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr, flush=True)
    os._exit(1)


def tunnel(a):
    """Passes bytes on to the other side, as a tunnel between two sites does."""
    host, port = a.upstream.rsplit(":", 1)
    listener = socket.create_server((HOST, a.port))

    def pump(source, sink):
        try:
            while chunk := source.recv(65536):
                sink.sendall(chunk)
        except OSError:
            pass
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def carry(near):
        with near:
            try:
                far = socket.create_connection((host, int(port)), timeout=5)
            except OSError:
                return
            far.settimeout(None)
            with far:
                back = threading.Thread(target=pump, args=(far, near), daemon=True)
                back.start()
                pump(near, far)
                back.join()

    def serve():
        while True:
            near, _ = listener.accept()
            threading.Thread(target=carry, args=(near,), daemon=True).start()

    return serve


def web(a):
    roles = {"edge": edge, "core": core, "metrics": metrics}

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            if self.path == "/healthz":
                status, reply = 200, b"ok\n"
            else:
                status, reply = roles[a.role](a, self.command, self.path, self.headers, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_PUT = do_DELETE = answer

    return http.server.ThreadingHTTPServer((HOST, a.port), Handler).serve_forever


def edge(a, method, path, headers, body):
    """Sends /NAME/… to where the file `routes` says that NAME is (lines of `NAME URL`)."""
    _, name, rest = (path.split("/", 2) + ["", ""])[:3]
    try:
        lines = (a.dir / "routes").read_text().splitlines()
    except FileNotFoundError:
        lines = []
    routes = dict(line.split(None, 1) for line in lines if line.strip())
    if name not in routes:
        return 404, b"no such route\n"
    request = urllib.request.Request(f"{routes[name]}/{rest}", data=body or None, method=method)
    if "Authorization" in headers:
        request.add_header("Authorization", headers["Authorization"])
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=5) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()
    except OSError as fault:
        return 502, f"{name} does not answer: {fault}\n".encode()


def core(a, method, path, headers, body):
    """Keeps notes: /notes/TENANT/NAME is a file. Whoever writes must know the token."""
    parts = path.strip("/").split("/")
    if len(parts) != 3 or parts[0] != "notes" or any(p.startswith(".") for p in parts):
        return 404, b"no such note\n"
    tenant = a.dir / "data" / parts[1]
    if not tenant.is_dir():
        return 404, b"no such tenant\n"
    note = tenant / parts[2]
    if method == "GET":
        return (200, note.read_bytes()) if note.exists() else (404, b"no such note\n")
    token = headers.get("Authorization", "").removeprefix("Bearer ")
    digest = a.dir / "token.sha256"
    known = digest.read_text().strip() if digest.exists() else None
    if hashlib.sha256(token.encode()).hexdigest() != known:
        return 403, b"wrong token\n"
    if method == "PUT":
        partial = tenant / f".{parts[2]}.partial"
        partial.write_bytes(body)
        partial.rename(note)
    else:
        note.unlink(missing_ok=True)
    return 200, b"done\n"


def metrics(a, method, path, headers, body):
    """Says of each server of the lab whether it accepts connections."""
    if method != "GET" or path != "/metrics":
        return 404, b"only /metrics\n"
    lines = []
    for port in sorted(a.lab.glob("*/port")):
        up = int(answers(int(port.read_text())))
        lines.append(f'up{{service="{port.parent.name}"}} {up}\n')
    return 200, "".join(lines).encode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["start", "stop"])
    parser.add_argument("--lab", type=pathlib.Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--role", choices=["edge", "tunnel", "core", "metrics"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", default="")
    a = parser.parse_args()
    a.dir = a.lab / a.name
    {"start": start, "stop": stop}[a.what](a)


if __name__ == "__main__":
    main()
