"""The page in a real browser: a file is dropped, sliders move, a scan fills, nothing complains."""

import re

import numpy as np
import pytest
from desk_explore import CHOSEN
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes._representation import with_error
from driftbayes.comparison import make_hypotheses
from driftbayes.io import write_trajectories

# A model is compiled the first time it is asked for, on a busy machine.
PATIENCE = 120_000


@pytest.fixture
def open_page(browser, server):
    """Open the page of a server; what it complained of or asked for is in `seen` and `asked`."""
    contexts = []

    def go(at=server):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.seen, page.asked = [], []
        page.on("console", lambda message: page.seen.append(message.text))
        page.on("pageerror", lambda error: page.seen.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(at.url)
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield go
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page, server):
    opened = open_page()
    yield opened
    # Whatever was done: no complaint, and nothing asked of anybody else.
    assert opened.seen == []
    own = f"http://127.0.0.1:{server.guard.port}/"
    assert [url for url in opened.asked if not url.startswith((own, "blob:", "data:"))] == []


def drop(page, name, text):
    held = page.evaluate_handle(
        """([name, text]) => {
            const held = new DataTransfer();
            held.items.add(new File([text], name));
            return held;
        }""",
        [name, text],
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": held})


def drag(page, path):
    """What a person does with a mouse: a real file or folder, let go over the page."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        event = {"type": kind, "x": 200, "y": 250, "data": data}
        session.send("Input.dispatchDragEvent", event)


def wait_for(page, selector, pattern):
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=PATIENCE)


def choose_priors(page):
    page.locator("#u-rms").fill(str(CHOSEN["u_rms"]))
    page.locator("#timescale").fill(str(CHOSEN["timescale"]))


def column(page, table, row, place):
    return page.locator(f"#{table} tbody tr").nth(row).locator("td").nth(place).inner_text()


def value(text):
    return float(text.split(" ")[0].replace("−", "-"))


def judged(path, tau):
    setup = make_hypotheses(CHOSEN["models"], u_rms=1.5, timescale=1.0)
    return db.compare_hypotheses(
        setup.hypotheses, db.displacements(db.read_trajectories(path), tau)
    )


def test_a_dropped_file_is_judged_as_python_judges_it(page, tracks_csv):
    choose_priors(page)
    drop(page, "tracks.csv", tracks_csv.read_text())
    wait_for(page, "#card-title", "tracks.csv")
    assert "30 in 2D" in page.locator("#card-rows").inner_text()
    assert page.locator("#quality").inner_text().endswith("no problems found")
    assert page.locator("#tracks svg g.track").count() == 30
    for place, tau in ((0, 0.5), (-1, 6.0)):
        last = int(page.locator("#tau").get_attribute("max"))
        page.locator("#tau").fill(str(place % (last + 1)))
        wait_for(page, "#verdict", rf"tau = {tau:g} ")
        expected = judged(tracks_csv, tau)
        assert page.locator("#tau-text").inner_text() == f"{tau:g}"
        for i, (name, e) in enumerate(expected.evidences.items()):
            assert column(page, "models-at", i, 0) == name
            assert abs(value(column(page, "models-at", i, 1)) - e.log_evidence) < 6e-4
            shown = value(column(page, "models-at", i, 5))
            assert_allclose(shown, expected.probabilities[name], rtol=6e-4)
            bar = page.locator(f'#bars li[data-model="{name}"] .fill').first
            width = bar.evaluate("one => one.style.width")
            assert_allclose(float(width.rstrip("%")), 100 * expected.probabilities[name], rtol=1e-3)
        assert page.locator("#verdict").inner_text().lower() == expected.verdict.lower()
        langevin = expected.evidences["langevin"]
        for row, name in ((1, "gamma"), (2, "k")):
            assert column(page, "parameters-at", row, 0) == f"langevin.{name}"
            mean, sd = langevin.posterior_mean[name], langevin.posterior_sd[name]
            assert column(page, "parameters-at", row, 3) == with_error(mean, sd)
    # The curves of the fits move with it, and so does the cursor.
    assert page.locator("#fits g.curve").count() >= 3


def test_sentences_begin_with_a_capital_but_for_names_of_axes(page):
    texts = ["second_order is favoured", "z is constant", "'a.csv' is empty!", "give both"]
    told = page.evaluate("t => import('/build.js').then(m => t.map(m.sentence))", texts)
    assert told == [
        *("Second-order is favoured.", "z is constant.", "'a.csv' is empty!", "Give both."),
    ]


def test_a_scan_fills_the_panels_and_equals_the_librarys(page, tracks_csv, tmp_path):
    choose_priors(page)
    drop(page, "tracks.csv", tracks_csv.read_text())
    wait_for(page, "#verdict", "tau = 0.5 ")
    page.locator("#scan-start").click()
    wait_for(page, "#scan-state", r"^done, (\d+) of \1 sampling times$")
    with page.expect_download() as waiting:
        page.locator("#get-scan").click()
    waiting.value.save_as(tmp_path / "scan.nc")
    ours = db.read_scan(tmp_path / "scan.nc")
    setup = make_hypotheses(CHOSEN["models"], u_rms=1.5, timescale=1.0)
    tracks = db.read_trajectories(tracks_csv)
    theirs = db.scan_hypotheses(tracks, setup.hypotheses, ours["tau"].values).to_dataset()
    assert_allclose(ours["log_evidence"], theirs["log_evidence"], rtol=1e-10)
    with page.expect_download() as waiting:
        page.locator("#get-report").click()
    waiting.value.save_as(tmp_path / "report.html")
    assert "tracks.csv" in (tmp_path / "report.html").read_text(encoding="utf-8")
    titles = page.locator("#scan-panels h3").all_inner_texts()
    assert {"Diffusivity", "Bayes factors against brownian"} <= set(titles)
    drawn = page.locator('#scan-panels svg[data-panel="bayes_factors"] g.scale:visible .dot')
    assert drawn.count() == len(theirs["tau"])
    # In the drawing, too: ln K falls as the dots do.
    heights = [float(dot.get_attribute("cy")) for dot in drawn.all()]
    assert np.all(np.sign(np.diff(heights)) == -np.sign(np.diff(theirs["log_bayes_factor"][0])))
    # The slider moves the line in all of them to its sampling time.
    page.locator("#tau").fill("2")
    places = page.eval_on_selector_all(
        "#scan-panels .cursor", "all => all.map(one => Number(one.getAttribute('x1')))"
    )
    third = page.locator('#scan-panels g.scale:visible .dot[data-i="2"]').first
    assert_allclose(places, float(third.get_attribute("cx")), atol=0.06)
    assert "driftbayes scan tracks.csv --taus" in page.locator("#scan-command").inner_text()
    # Another question: what is shown no longer answers it, but a new scan does.
    page.locator("#u-rms").fill("2")
    page.locator("#scan-answer").wait_for(state="hidden")
    page.locator("#scan-start").click()
    wait_for(page, "#scan-state", r"^done, (\d+) of \1 sampling times$")
    assert "--prior kappa=exponential:4 " in page.locator("#scan-command").inner_text()


def test_a_scan_of_priors_that_changed_before_its_start_is_cancelled(page, tracks_csv):
    choose_priors(page)
    drop(page, "tracks.csv", tracks_csv.read_text())
    wait_for(page, "#verdict", "tau = 0.5 ")
    held = []
    page.route("**/api/scan", lambda route: held.append(route))
    with page.expect_request("**/api/scan"):
        page.locator("#scan-start").click()
    page.locator("#u-rms").fill("2")
    wait_for(page, "#compare-command", "--u-rms 2.0 ")
    with page.expect_response("**/api/cancel"):
        held[0].continue_()
    assert page.locator("#scan-state").inner_text() == ""
    assert page.locator("#scan-answer").is_hidden()


@pytest.mark.slow
def test_a_slider_of_the_simulation_changes_the_evidence(page):
    page.get_by_role("button", name="Simulate").click()
    wait_for(page, "#card-title", "simulated.csv")
    wait_for(page, "#verdict", "Langevin is very strongly favoured")
    seen = []
    for place in ("130", "160", "190"):
        before = page.locator("#compare-command").inner_text()
        page.locator("#slide-gamma").fill(place)
        from playwright.sync_api import expect

        expect(page.locator("#compare-command")).not_to_have_text(before, timeout=PATIENCE)
        brownian, langevin = (value(column(page, "models-at", i, 1)) for i in (0, 1))
        seen.append(brownian - langevin)
    # The faster the velocity forgets, the less is known of its memory.
    assert seen[0] < seen[1] < seen[2]
    gamma = page.locator('label[for="slide-gamma"] + output').inner_text().split()[0]
    assert f"simulate langevin --gamma {gamma} " in page.locator("#compare-command").inner_text()


@pytest.mark.slow
def test_of_many_moves_only_some_are_computed_and_the_last_is_shown(page):
    page.get_by_role("button", name="Simulate").click()
    wait_for(page, "#verdict", "Langevin is very strongly favoured")
    before = sum(url.endswith("/api/simulate") for url in page.asked)
    slider = page.locator("#slide-k")
    for place in range(60, 141, 2):
        slider.fill(str(place))
    last = page.locator('label[for="slide-k"] + output').inner_text().split()[0]
    wait_for(page, "#compare-command", f"--k {re.escape(last)} ")
    moves = sum(url.endswith("/api/simulate") for url in page.asked) - before
    assert 1 <= moves < 41


def test_another_model_brings_its_own_sliders(page):
    page.locator("#simulate-model").select_option("oscillating")
    assert page.locator("#slide-omega").is_visible()
    assert page.locator("#slide-kappa").count() == 0


def test_a_broken_file_gives_its_sentence_and_leaves_the_rest_alone(page, tracks_csv):
    drop(page, "tracks.csv", tracks_csv.read_text())
    wait_for(page, "#card-title", "tracks.csv")
    drop(page, "broken.csv", "id,time,x\na,0,1\na,one,2\n")
    wait_for(page, "#data-error", "line 3: column 'time' holds 'one', expected a number")
    assert page.locator("#data-error").inner_text().startswith("'broken.csv'")
    assert page.locator("#card-title").inner_text() == "tracks.csv"
    drop(page, "tracks.csv", tracks_csv.read_text())
    page.locator("#data-error").wait_for(state="hidden")


@pytest.mark.slow
def test_a_wrong_model_gives_its_sentence(page, tracks_csv):
    drop(page, "tracks.csv", tracks_csv.read_text())
    wait_for(page, "#verdict", "tau = 0.5 ")
    page.locator("#more-models").fill("langevin+nose")
    wait_for(page, "#compare-error", "Unknown option 'nose' in 'langevin\\+nose'")
    assert not page.locator("#answer").is_visible()
    page.locator("#more-models").fill("")
    page.locator("#answer").wait_for()


def test_a_file_over_the_limit_is_refused_in_a_sentence(open_page, start_server):
    small = start_server(max_upload=2000)
    page = open_page(small)
    assert "Up to 2 kB" in page.locator("#limit").inner_text()
    drop(page, "large.csv", "id,time,x\n" + "a,0,1\n" * 1000)
    wait_for(
        page,
        "#data-error",
        "The upload has .* kB, at most 2 kB are allowed; start with --max-upload",
    )
    # Nothing was sent.
    assert [url for url in page.asked if url.endswith("upload")] == []
    assert page.seen == []


@pytest.mark.parametrize("way", [pytest.param("chosen", marks=pytest.mark.slow), "dropped"])
def test_a_folder_is_taken(page, tmp_path, tracks_csv, way):
    tracks = db.read_trajectories(tracks_csv)
    write_trajectories(tracks, tmp_path / "own.zarr")
    if way == "chosen":
        page.locator("#folder").set_input_files(tmp_path / "own.zarr")
    else:
        drag(page, tmp_path / "own.zarr")
    wait_for(page, "#card-title", "own.zarr")
    assert tracks.fingerprint in page.locator("#card-rows").inner_text()


def test_a_file_is_dragged_from_the_desktop_and_read_again_with_options(page, tracks_csv):
    drag(page, tracks_csv)
    wait_for(page, "#card-title", "tracks.csv")
    page.locator("summary", has_text="Reading options").click()
    page.locator("#reading-options").fill("--length-unit km --time-unit h")
    page.get_by_role("button", name="Read again").click()
    wait_for(page, "#tau-text", "0.5 h")
    assert "length km, time h" in page.locator("#card-rows").inner_text()
    wait_for(page, "#compare-command", "tracks.csv --length-unit km --time-unit h --tau 0.5")


def test_without_the_token_it_says_where_to_look(open_page, browser, server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url.partition("#")[0])
    wait_for(page, "#page-error", "Open the address that the terminal shows|open the address")
    context.close()


def test_names_in_a_file_are_text_and_not_markup(page):
    rows = "".join(f"<img src=x>,{i},{(i * 7) % 5}\n" for i in range(40))
    drop(page, "<b>bold.csv", f"id,time,x\n{rows}")
    wait_for(page, "#card-title", "_b_bold.csv")
    wait_for(page, "#status", "displacements")
    assert page.locator("#card img, #card b").count() == 0


def test_it_works_without_a_mouse(page):
    page.locator("#choose-file").focus()
    reached = []
    for _ in range(40):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.value"))
        page.keyboard.press("Tab")
    for name in ("choose-folder", "simulate-model", "slide-gamma", "seed", "langevin", "u-rms"):
        assert name in reached
    page.locator("#simulate button[type=submit]").focus()
    page.keyboard.press("Enter")
    wait_for(page, "#verdict", "tau = 1 ")
    page.locator("#tau").focus()
    page.keyboard.press("ArrowRight")
    wait_for(page, "#verdict", "tau = 2 ")
    assert page.locator("#tau").get_attribute("aria-valuetext") == "2"


def test_with_all_its_answers_it_can_be_read_aloud_and_fits_every_width(page):
    page.get_by_role("button", name="Simulate").click()
    wait_for(page, "#verdict", "tau = 1 ")
    # Every picture has words, and every field a label.
    for svg in page.locator("svg").all():
        assert len(svg.get_attribute("aria-label")) > 20
    unnamed = page.eval_on_selector_all(
        "input:not([hidden]), select, progress",
        "all => all.filter(one => !one.labels.length && !one.ariaLabel).map(one => one.id)",
    )
    assert unnamed == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        for width in (390, 800, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
