"""The shop of the screenshots: real agents, whose books are even."""

from screenshots.shop import SITES, Shop


def test_the_shop_plays(tmp_path):
    shop = Shop(tmp_path)
    try:
        shop.play_story(hours=4)
        books = {name: node.experiment("checkout").books() for name, node in shop.nodes.items()}
        assert books.keys() == SITES.keys()
        assert all(each.counted == each.own > 10 for each in books.values())
    finally:
        shop.close()
