"""The shop of the screenshots: real agents, whose audits balance."""

from screenshots.shop import SITES, Shop


def test_the_shop_plays(tmp_path):
    shop = Shop(tmp_path)
    try:
        shop.play_story(hours=4)
        audits = {name: node.experiment("checkout").audit() for name, node in shop.nodes.items()}
        assert audits.keys() == SITES.keys()
        assert all(each.counted == each.in_evidence > 10 for each in audits.values())
    finally:
        shop.close()
