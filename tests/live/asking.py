"""Ask a server, and expect an answer or one sentence that refuses."""

JSON = {"Content-Type": "application/json"}


def ask(http, path, body, status=200):
    answer = http.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"], answer.text
    sentence = answer.json()["error"]
    for word in words:
        assert word in sentence, sentence
    assert "\n" not in sentence, sentence
