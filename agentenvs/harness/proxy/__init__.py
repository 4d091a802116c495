"""A model proxy: gives programs as players their model, one key an episode, and keeps account of what they ask.

An HTTP server on this machine's loopback speaks ``/v1/chat/completions``, ``/v1/responses`` and ``/v1/messages``, with
streams and tools, and forwards to one OpenAI-compatible endpoint. The endpoint's key stays with the proxy.

    settings.py   which model, which budgets an episode
    ledger.py     what each episode asked, got, used and may still use; keys
    forms.py      what all three APIs share: usage, errors, chat replies put together from their streams
    responses.py  messages.py  chat.py    one API each: to a chat request, and back from its reply
    passed.py     replies of APIs that the endpoint has itself, put together from their events
    backend.py    requests to the endpoint, through every kind of weather; sse.py reads its streams
    exchange.py   one request of a program from its first byte to its last
    app.py        routes, keys, bodies; server.py runs it in a thread
"""
