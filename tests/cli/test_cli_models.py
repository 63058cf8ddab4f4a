"""`driftbayes models`: what can be compared."""

from driftbayes.models import MODELS


def test_json_lists_every_model_with_its_parameters(ask):
    answer = ask("models", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert set(answer.json) == set(MODELS)
    for name, model in MODELS.items():
        found = answer.json[name]
        expected = {"summary", "limit", "scale_parameter", "state_space", "parameters"}
        assert set(found) == expected
        assert found["summary"] == model.summary
        assert found["scale_parameter"] in found["parameters"]
        assert list(found["parameters"]) == list(model.parameters)
        for about in found["parameters"].values():
            assert set(about) == {"symbol", "meaning", "unit"}
    assert answer.json["langevin"]["parameters"]["gamma"]["unit"] == "1/time"


def test_people_get_a_table_and_a_line_per_model(ask):
    answer = ask("models")
    assert answer.code == 0
    for name, model in MODELS.items():
        assert f"{name}: {model.summary}; limit: {model.limit}" in answer.out
        for about in model.parameters.values():
            assert about.meaning in answer.out
    assert "Var(Δx_i) = 2κτ per axis" in answer.out


def test_the_paper_and_the_software_are_cited(ask):
    from driftbayes import __version__

    answer = ask("cite")
    assert answer.code == 0
    assert "@article{brolly2022bayesian," in answer.out
    assert f"version = {{{__version__}}}" in answer.out
    assert answer.out.count("{") == answer.out.count("}")
