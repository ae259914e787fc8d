"""Signatures of machine code that is sent between nodes, with a key of the run. They cover the task and the steps."""
import hashlib
import hmac
import json


class ForeignCode(Exception):
    """Code that this run did not make, or not of this schedule."""


def _tag(key, task, steps, code):
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in (json.dumps(task, sort_keys=True), json.dumps(steps, sort_keys=True)):
        mac.update(hashlib.sha256(part.encode()).digest())
    mac.update(code)
    return mac.digest()


def signed(key, task, steps, code):
    """`code`: as a node gave it; the result is what travels."""
    data = json.dumps(code, separators=(",", ":")).encode()
    return _tag(key, task, steps, data) + data


def verified(key, task, steps, artefact):
    """The code of what signed() gave for the same task and steps with the same key."""
    size = hashlib.sha256().digest_size
    tag, data = bytes(artefact[:size]), bytes(artefact[size:])
    if not hmac.compare_digest(tag, _tag(key, task, steps, data)):
        raise ForeignCode("code that this run did not make is not loaded")
    return json.loads(data)
