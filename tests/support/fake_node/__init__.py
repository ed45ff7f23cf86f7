"""A small server that speaks the public API over real sockets, for tests of clients.

Its sandboxes are not isolated: commands run as processes of the test, files live in memory.
"""

from tests.support.fake_node.node import FakeNode as FakeNode
from tests.support.fake_node.node import Rule as Rule
from tests.support.fake_node.sessions import FakeSession as FakeSession
