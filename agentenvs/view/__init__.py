"""A web viewer over run folders: server-rendered pages that read, and never write, what they show.

finding.py     which runs lie in the folders, and what each says of itself
index.py       a small index of a run's table of episodes, in this user's cache
asking.py      filters, pages, rates by family
sidecars.py    the words beside a record
episodes.py    an episode turn by turn
tracing.py     the same, played again, seen from inside
pairs.py       two runs, two episodes
curves.py      learning curves of training runs
pages.py       what a page holds
rendering.py   a page as HTML: served, or as one file that loads nothing
app.py         addresses, and what a browser may do
serving.py     the server
text.py        untrusted words on a page
files.py       untrusted files
"""

from agentenvs.view.pages import Pages
from agentenvs.view.rendering import exported
from agentenvs.view.serving import background, serve

__all__ = ["Pages", "background", "exported", "serve"]
