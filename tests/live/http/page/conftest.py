"""A browser that watches."""

from tests.live.http.page.watching import watch as watch
