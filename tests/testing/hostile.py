"""Hostile: a target that does, in one point, what none should. Its mode is its argument."""

import json
import os
import subprocess
import sys
import time

mode = sys.argv[1]


def say(text: str) -> None:
    print(text, flush=True)


def hang(*_: object) -> None:
    time.sleep(999)


if mode == "dies-at-once":
    sys.exit("no more")
for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked["method"], asked["id"]
    result: object = {}
    if method == "hello":
        result = {"name": "hostile", "can": ["run", "ledger"]}
        if mode == "can-is-a-text":
            result = {"name": "hostile", "can": "run"}
        elif mode == "has-no-name":
            result = {"can": ["run"]}
        elif mode == "hello-is-nothing":
            result = None
    elif method == "open" and mode == "open-is-a-text":
        result = "open"
    elif method == "run":
        result = {"status": "delivered"}
        match mode:
            case "dies-in-a-run":
                sys.exit("no more")
            case "is-killed-in-a-run":
                os.kill(os.getpid(), 9)
            case "talks":
                say("I am fine")
            case "talks-json":
                say("[]")
            case "answers-what-nobody-asked":
                say('{"jsonrpc": "2.0", "id": 99, "result": {}}')
            case "answers-twice":
                say(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}))
            case "tells-nonsense":
                say('{"jsonrpc": "2.0", "method": "paused", "params": {"run": 7}}')
                say('{"jsonrpc": "2.0", "method": "coffee"}')
            case "answer-is-a-list":
                result = ["delivered"]
            case "never-answers":
                hang()
            case "closes-its-streams":
                os.close(0)
                os.close(1)
                hang()
            case "floods":
                while True:
                    sys.stdout.write("x" * 65536)
            case "leaves-a-process":
                daemon = subprocess.Popen(
                    ["sleep", "999"], stdin=-3, stdout=-3, stderr=-3, start_new_session=True
                )
                result = {"status": "delivered", "daemon": daemon.pid}
            case "pauses-nowhere":
                say('{"jsonrpc": "2.0", "method": "paused", "params": {"run": "first"}}')
                say('{"jsonrpc": "2.0", "method": "paused", "params": [1]}')
            case "answers-to-a-list":
                say('{"jsonrpc": "2.0", "id": [1], "result": {}}')
            case "talks-deep":
                say("[" * 200_000)
            case "kills-its-supervisor":
                above = os.getppid()
                os.kill(above, 9)
                while os.getppid() == above:
                    time.sleep(0.001)
            case "fails-with-a-text":
                say(json.dumps({"jsonrpc": "2.0", "id": number, "error": "boom"}))
                continue
            case "denies-what-it-declared":
                no = {"code": -32601, "message": "Method not found"}
                say(json.dumps({"jsonrpc": "2.0", "id": number, "error": no}))
                continue
            case "fails":
                error = {"code": -32000, "message": "it is on fire"}
                say(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}))
                continue
    elif method == "close" and mode == "does-not-close":
        hang()
    if method == "ledger" and mode == "ledger-of-texts":
        result = {"attempts": ["delivered"]}
    say(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}))
    if method == "close":
        break
