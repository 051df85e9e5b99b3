"""An application that uses flags through the OpenFeature SDK; prints what it got as JSON."""

import json
import logging
import sys

from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.track import TrackingEventDetails

from posse.interop.openfeature import Provider


class Lines(logging.Handler):
    """Keeps what the provider logs."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def describe(details):
    return {
        "value": details.value,
        "variant": details.variant,
        "reason": str(details.reason),
        "error": None if details.error_code is None else details.error_code.value,
        "message": details.error_message,
        "metadata": dict(details.flag_metadata),
    }


url, which, token, away = sys.argv[1:]
log = Lines()
logging.getLogger("posse").addHandler(log)
logging.getLogger("openfeature").addHandler(log)
headers = {"Authorization": f"Bearer {token}"}
if which == "stock":
    provider = OFREPProvider(url, headers_factory=lambda: headers)
else:
    provider = Provider(url, token=token, events={"purchase": ["checkout", "switch"]}, patience=5)
api.set_provider(provider)
client = api.get_client()
visitor = EvaluationContext("u-17", {"country": "de", "plan": "free"})
answers = {
    "object": describe(client.get_object_details("checkout", {}, visitor)),
    "again": describe(client.get_object_details("checkout", {}, visitor)),
    "boolean": describe(client.get_boolean_details("switch", False, visitor)),
    "string": describe(client.get_string_details("banner", "none", visitor)),
    "float": describe(client.get_float_details("price", 0.0, visitor)),
    "context": describe(client.get_string_details("shop", "none", visitor)),
    "mismatch": describe(client.get_boolean_details("banner", True, visitor)),
    "unknown": describe(client.get_string_details("nothing", "none", visitor)),
    "nobody": describe(client.get_string_details("banner", "none", EvaluationContext())),
    "invalid": describe(client.get_string_details("shop", "none", EvaluationContext("u-18"))),
}
client.track("purchase", visitor)
client.track("purchase", visitor, TrackingEventDetails(1))  # a repetition
client.track("page view", visitor)
client.track("purchase", EvaluationContext("nobody"))
client.track("purchase")
api.shutdown()
answers["log"] = log.lines

wrong = Provider(url, token="wrong", patience=0.2) if which != "stock" else OFREPProvider(url)
api.set_provider(wrong)
answers["token"] = describe(client.get_string_details("banner", "none", visitor))
api.set_provider(OFREPProvider(away) if which == "stock" else Provider(away, patience=0.2))
answers["away"] = describe(client.get_string_details("banner", "none", visitor))
client.track("banner", visitor)
api.shutdown()
print(json.dumps(answers))
