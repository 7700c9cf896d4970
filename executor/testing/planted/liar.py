"""Liar: a target that says it delivered, and did nothing. See docs/targets.md for the protocol."""

import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    answer = {}
    if asked["method"] == "hello":
        answer = {"name": "liar", "version": "1", "can": ["run"]}
    elif asked["method"] == "run":
        if asked["params"]["request"]["parameters"].get("to") == "nonsense":
            print("delivered, I swear", flush=True)
        answer = {"status": "delivered"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
    if asked["method"] == "close":
        break
