"""Run by a Python that has opentelemetry-proto and opentelemetry-proto-json: receives lines as OTLP over HTTP would.

    python read_otlp.py FILE -> JSON: a list with the spans of each line

Each line goes through the reader of OTLP/JSON, which must give the same line back, and through the protobuf messages.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto_json.collector.trace.v1 import trace_service


def binary(form: dict[str, Any]) -> Any:
    """Return the protobuf message; OTLP/JSON spells ids in hexadecimal, protobuf's own JSON in base 64."""
    for spans in (scope["spans"] for one in form["resourceSpans"] for scope in one["scopeSpans"]):
        for span in spans:
            for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return ExportTraceServiceRequest.FromString(ParseDict(form, ExportTraceServiceRequest()).SerializeToString())


def value(one: Any) -> Any:
    kind = one.WhichOneof("value")
    if kind == "array_value":
        return [value(item) for item in one.array_value.values]
    return getattr(one, kind)


def told(line: str) -> list[dict[str, Any]]:
    read = trace_service.ExportTraceServiceRequest.from_json(line)
    assert json.loads(read.to_json()) == json.loads(line)
    (resource,) = binary(json.loads(line)).resource_spans
    (scope,) = resource.scope_spans
    spans = scope.spans
    names = {span.span_id for span in spans}
    assert len(names) == len(spans)
    assert {span.trace_id for span in spans} == {spans[0].trace_id}
    assert all(span.parent_span_id in names for span in spans[1:])
    assert not spans[0].parent_span_id
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    return [
        {
            "name": span.name,
            "kind": span.kind,
            "status": span.status.code,
            "attributes": {pair.key: value(pair.value) for pair in span.attributes},
            "events": [{pair.key: value(pair.value) for pair in event.attributes} for event in span.events],
        }
        for span in spans
    ]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(json.dumps([told(line) for line in file]))
