"""LMRec from reviews to audit, on the bundled sample with its planted associations."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from builders import stopping_at
from commands import refused, run_command
from small_sample import TOP, VENUES, few_templates

from tod_bias.errors import ModelError, RecommenderError
from tod_bias.perturb.names import first_names
from tod_bias.recommenders.lmrec.model import LMRec, load_encoder, new_tokenizer, recommend_templates, train
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig
from tod_bias.recommenders.lmrec.templates import MASK, Neutraliser, load_templates


@pytest.fixture(scope="module")
def audited(trained, tmp_path_factory):
    out = tmp_path_factory.mktemp("audit")
    arguments = ["--model", trained, "--top", TOP, "--out", out, "--bootstrap", 200, "--permutations", 1000]
    assert run_command("recommend audit", *arguments, "--no-figures", "--quiet")[0] == 0
    return out


def test_the_folder_is_like_a_hugging_face_model(trained, sample_reviews):
    names = {file.name for file in trained.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "venues.jsonl", "training.json"} <= names
    assert "checkpoint" not in names
    loaded = LMRec.load(trained)
    assert loaded.venues == sample_reviews.venues
    assert not loaded.model.training


def test_planted_associations_are_significant(audited):
    shares = pd.read_csv(audited / "price_percentage.csv").set_index(["city", "dimension", "label", "price"])
    for city in ("Sampleton", "all"):
        assert shares.loc[(city, "race", "black", 1), "ci_low"] > 0.55
        assert shares.loc[(city, "race", "black", 4), "ci_high"] < 0.45
    result = pd.read_csv(audited / "association.csv")
    result = result[result["city"] == "all"].set_index(["dimension", "label", "other", "category"])
    for dimension in ("gender", "first relationship"):
        for label, other, category in (("female", "male", "Desserts"), ("male", "female", "Bars")):
            row = result.loc[(dimension, label, other, category)]
            assert row["ci_low"] > 0, (dimension, category)
            assert dimension != "gender" or row["p_adjusted"] < 0.05, category  # fewer words stand for relationships
    assert np.isnan(result.loc[("second relationship", "male", "female", "Gay Bars"), "ci_low"])  # three words a group
    prices = pd.read_csv(audited / "average_price.csv").set_index(["city", "substitution"])
    for dear, cheap in (("synagogue", "mosque"), ("law office", "construction site")):
        assert prices.loc[("all", dear), "ci_low"] > prices.loc[("all", cheap), "ci_high"]
        assert prices.loc[("all", cheap), "value"] < prices.loc[("all", cheap), "neutral"]


def test_every_filled_template_is_a_query(audited):
    record = json.loads((audited / "audit.json").read_text())
    assert record["queries"] == 88 * 18 + 16 * 6 * 18 + 30 * 18
    assert record["recommendations"] == record["queries"] * TOP
    assert record["neutral_recommendations"] == 3 * 18 * TOP
    frame = pd.read_parquet(audited / "recommendations.parquet")
    assert set(frame["kind"]) == {"names", "relationships", "locations"}
    assert frame[frame["substitution"] == "Jamal"]["label"].unique().tolist() == ["gender=male; race=black"]


def test_several_trainings_of_a_city_count_as_cities(trained, tmp_path):
    lmrec = LMRec.load(trained)
    for name in ("seed0", "seed1"):
        lmrec.save(tmp_path / name)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "templates.tsv").write_text("kind\ttemplate\nnames\tA table for [NAME]\n")
    folders = [tmp_path / "seed0", tmp_path / "seed1"]
    result, _ = recommend_templates(folders, templates=tmp_path / "templates", top=2)
    assert result.cities == ["Sampleton (seed0)", "Sampleton (seed1)"]
    lmrec.model.config.masked = True
    for folder in folders:
        lmrec.save(folder)
        (folder / "training.json").write_text('{"settings": {"init": "encoders/bert", "seed": 0}}')
    said, _ = recommend_templates(folders, templates=tmp_path / "templates", top=2)
    assert len(said.notes) == len(result.notes) + 2  # trained with a mask, and begun with the same weights
    lmrec.model.config.masked = False
    with pytest.raises(RecommenderError, match="two models of one city in folders of one name"):
        recommend_templates([folders[0]] * 2, templates=tmp_path / "templates", top=2)


def test_neutralised_queries_give_exactly_equal_recommendations_for_every_substitution(trained, tmp_path):
    arguments = ("--model", trained, "--top", TOP, "--neutralise", "--bootstrap", 0, "--permutations", 0, "--quiet")
    arguments = (*arguments, "--templates", few_templates(tmp_path / "templates"), "--no-figures")
    assert run_command("recommend audit", *arguments, "--out", tmp_path)[0] == 0
    frame = pd.read_parquet(tmp_path / "recommendations.parquet")
    frame = frame[frame["label"] != "neutral"]
    assert frame["substitution"].nunique() == 88 + 16 + 30
    lists = frame.groupby(["kind", "template", "substitution", "second"])["item_id"].agg(tuple)
    assert (lists.groupby(["kind", "template"]).nunique() == 1).all()
    shares = pd.read_csv(tmp_path / "price_percentage.csv").dropna(subset=["value"])
    assert shares["value"].to_numpy() == pytest.approx(shares["neutral"].to_numpy(), abs=1e-12)
    assert pd.read_csv(tmp_path / "association.csv")["difference"].abs().max() < 1e-12


def test_a_list_depends_neither_on_the_batch_nor_on_saving(trained, tmp_path):
    lmrec = LMRec.load(trained)
    texts = [query.text for query in load_templates().queries()][::40]
    whole = lmrec.rank(texts, TOP, batch=64)
    lmrec.save(tmp_path)
    np.testing.assert_array_equal(LMRec.load(tmp_path).rank(texts, TOP, batch=1), whole)
    np.testing.assert_array_equal(lmrec.rank(texts[::-1], TOP, batch=7)[::-1], whole)


@pytest.mark.slow
def test_quality_is_far_above_chance_and_mitigation_is_side_by_side(
    trained, trained_masked, trained_augmented, sample_reviews, tmp_path, monkeypatch
):
    for module in ("recommender_quality", "recommender_mitigation"):
        monkeypatch.setattr(f"tod_bias.cli.work.{module}.read_reviews", lambda *_: [sample_reviews])
    code, out, err = run_command("recommend evaluate --model", trained, "--out", tmp_path / "q", "--bootstrap", 200)
    assert code == 0, err
    scores = pd.read_csv(tmp_path / "q" / "quality.csv").set_index(["city", "score"])
    assert scores.loc[("Sampleton", "HR@5"), "ci_low"] > 5 / VENUES + 0.1
    assert "category nDCG" in out
    seeded = ("--model", trained, "--out", tmp_path / "q", "--bootstrap", 20, "--seed", 7, "--quiet")
    assert run_command("recommend evaluate", *seeded)[0] == 0
    record = json.loads((tmp_path / "q" / "quality.json").read_text())
    assert (record["seed"], record["split_seeds"]) == (7, {"Sampleton": 0})  # another split was trained on
    arguments = ("--model", trained, "--masked-model", trained_masked, "--top", TOP, "--bootstrap", 20)
    templates = few_templates(tmp_path / "templates")
    arguments = (*arguments, "--augmented-model", trained_augmented, "--templates", templates)
    code, out, err = run_command("recommend mitigate", *arguments, "--out", tmp_path / "m")
    assert code == 0, err
    bias = pd.read_csv(tmp_path / "m" / "bias.csv")
    assert bias.groupby(["condition", "score"])["value"].nunique().eq(1).all()  # one training, and the mean over all
    bias = bias[bias["city"] == "all"].pivot(index="score", columns="condition", values="value")
    assert (bias[["test side", "both"]].to_numpy() < 1e-12).all()
    assert (bias["original"] > 0.01).all()
    assert bias.loc["price percentage", "re-ranked"] < 0.5 * bias.loc["price percentage", "original"]
    assert bias.loc["price of places", "re-ranked"] < 0.5 * bias.loc["price of places", "original"]
    quality = pd.read_csv(tmp_path / "m" / "quality.csv")
    assert quality.groupby("condition")["score"].nunique().tolist() == [15] * 6
    assert (tmp_path / "m" / "mitigation.svg").read_text().startswith("<?xml")
    assert "re-ranked" in out
    mitigate = ("recommend mitigate --out", tmp_path / "m", "--model", trained)
    assert "was not trained with --mask" in refused(*mitigate, "--masked-model", trained)
    assert "was not trained with --augment" in refused(*mitigate, "--augmented-model", trained)
    assert "two models of" in refused(*mitigate, "--model", trained)
    lmrec = LMRec.load(trained)
    lmrec.save(tmp_path / "seed1")
    (tmp_path / "seed1" / "training.json").write_text('{"settings": {"seed": 1}}')
    both = ("--model", trained, "--model", tmp_path / "seed1")
    said = refused(*mitigate, "--model", tmp_path / "seed1", "--masked-model", trained_masked)
    assert "Sampleton with seed 1, and --masked-model has none" in said
    code, _, err = run_command("recommend evaluate", *both, "--out", tmp_path / "seeds", "--bootstrap", 20, "--quiet")
    assert code == 0, err
    scores = pd.read_csv(tmp_path / "seeds" / "quality.csv").set_index(["city", "score"])
    values = [scores.loc[(f"Sampleton ({name})", "accuracy"), "value"] for name in (trained.name, "seed1")]
    assert scores.loc[("all", "accuracy"), "value"] == pytest.approx(np.mean(values))


def test_an_interrupted_training_goes_on_to_the_same_weights(few_reviews, settings, tmp_path):
    short = settings.model_copy(update={"epochs": 2, "max_length": 16, "width": 16, "hidden": 16, "batch": 256})
    whole = train(few_reviews, tmp_path / "whole", short)
    with stopping_at(2):
        train(few_reviews, tmp_path / "parts", short)
    with pytest.raises(ModelError, match="belongs to a training with other settings"):
        train(few_reviews, tmp_path / "parts", short.model_copy(update={"seed": 1}))
    resumed = train(few_reviews, tmp_path / "parts", short)
    assert resumed["validation_loss"] == pytest.approx(whole["validation_loss"], abs=1e-6)
    pair = [LMRec.load(tmp_path / name).model.state_dict() for name in ("whole", "parts")]
    assert max(float((pair[0][name] - pair[1][name]).abs().max()) for name in pair[0]) == 0


@pytest.mark.parametrize("kind", ["distilbert", "roberta"])
def test_any_encoder_checkpoint_with_a_one_layer_head(kind, few_reviews, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import AutoModel, DistilBertConfig, PreTrainedTokenizerFast, RobertaConfig

    tokens = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
    names = {f"{name}_token": token for name, token in tokens.items()}
    words = [*tokens.values(), "table", "for", "two", "at", "the", "bank", "great", "cake"]
    tokenizer = Tokenizer(models.WordLevel({word: code for code, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(tmp_path / "encoder")
    size = {"vocab_size": 30, "pad_token_id": 1, "max_position_embeddings": 34}
    config = (
        DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=32, **size)
        if kind == "distilbert"
        else RobertaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, **size)
    )
    AutoModel.from_config(config).save_pretrained(tmp_path / "encoder")
    settings = RecommenderTrainConfig(init=str(tmp_path / "encoder"), head_layers=1, max_steps=2, batch=32)
    record = train(few_reviews, tmp_path / "out", settings)
    assert record["steps"] == 2
    lmrec = LMRec.load(tmp_path / "out")
    assert lmrec.model.encoder.config.model_type == kind
    assert len([module for module in lmrec.model.head if isinstance(module, torch.nn.Linear)]) == 1
    assert lmrec.rank([f"table for {MASK}"], 3).shape == (1, 3)
    assert lmrec.model.config.max_tokens == (32 if kind == "roberta" else 34)
    config.vocab_size = 9
    AutoModel.from_config(config).save_pretrained(tmp_path / "encoder")
    with pytest.raises(ModelError, match=r"its tokenizer gives token \d+, and the model has 9"):
        train(few_reviews, tmp_path / "another", settings)


def test_the_same_mask_for_every_substitution_of_a_template():
    neutralise = Neutraliser()
    queries = list(load_templates().queries())
    assert len({(query.kind, neutralise(query.text)) for query in queries}) == 3 * 18
    assert neutralise("Raven's sister and her wife left the Law Office") == (
        f"{MASK}'s {MASK} and {MASK} {MASK} left the {MASK}"
    )
    assert neutralise("a raven on a diamond, in officeland") == "a raven on a diamond, in officeland"


@pytest.mark.parametrize(
    ("text", "masked"),
    [  # names that no list of the paper holds, and words that only look like names
        ("I came here with Siobhan and her brother Patrick", "I came here with M and M M M"),
        ("Our server Brenda Kowalski was great. Thanks, Kowalski!", "Our server M M was great. Thanks, M!"),
        ("Ask for Grace! Will you bring Thai Basil?", "Ask for M! Will you bring Thai Basil?"),
        ("My name is eunice, and this is about Wendy's Burgers", "My name is M, and this is about Wendy's Burgers"),
    ],
)
def test_anybodys_name_is_masked(text, masked):
    assert Neutraliser()(text).replace(MASK, "M") == masked


def test_nearly_every_known_name_is_masked_in_nearly_every_request():
    neutralise = Neutraliser()
    requests = [text for kind, text in load_templates().templates if kind == "names"][::3]
    words = {name.name for name in first_names() if name.word}
    named = {}
    for number, name in enumerate(name.name for name in first_names()):
        if number % 4 and name not in words:
            continue
        texts = requests if name in words else [requests[number // 4 % len(requests)]]
        named[name] = [MASK in neutralise(text.replace("[NAME]", name)) for text in texts]
    assert {name for name, masked in named.items() if not all(masked)} < words
    assert [name for name, masked in named.items() if not any(masked)] == [
        "April", "August", "Autumn", "Dawn", "Eve", "June", "May", "Summer", "Winter",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("templates", "kind\ttemplate\nnames\tFind [NAME]\nnames\tFind a place\n", "line 3: the template 'Find a"),
        ("templates", "kind\ttemplate\npets\tFeed [NAME]\n", "line 2: no kind 'pets'"),
        ("names", "word\tgender\nEmily\tfemale\nKim\t\n", "line 3: the substitution 'Kim' is in no label"),
        ("locations", "word\tgroup\ngym\tlocation\ngym\tlocation\n", "line 3: 'gym' stands in line 2 too"),
        ("relationships", "word\tplace\tgender\tage\naunt\tfirst\t\told\n", "line 2: no gender"),
    ],
)
def test_wrong_templates_end_in_one_line_and_exit_code_2(name, content, message, trained, tmp_path):
    (tmp_path / f"{name}.tsv").write_text(content)
    said = refused("recommend audit --model", trained, "--templates", tmp_path, "--out", tmp_path / "out")
    assert f"{name}.tsv, {message}" in said


def test_a_model_that_cannot_be_audited_ends_in_one_line_and_exit_code_2(trained, tmp_path):
    audit = ("recommend audit --out", tmp_path / "out", "--model")
    assert f"{VENUES + 1} venues are asked for" in refused(*audit, trained, "--top", VENUES + 1)
    assert "gone: no such folder" in refused(*audit, trained, "--templates", tmp_path / "gone")
    LMRec.load(trained).save(tmp_path / "items")
    lines = (tmp_path / "items" / "venues.jsonl").read_text().splitlines()
    (tmp_path / "items" / "venues.jsonl").write_text("\n".join([lines[0], '{"id": 1}', *lines[2:]]))
    assert "venues.jsonl, line 2: expected" in refused(*audit, tmp_path / "items")


def test_what_writes_text_or_recommends_is_no_encoder(trained, gpt2, bart, tmp_path):
    for folder in (trained, gpt2, bart, tmp_path / "gone"):
        with pytest.raises(ModelError) as caught:
            load_encoder(str(folder))
        assert "\n" not in str(caught.value)


def test_equal_reviews_give_equal_tokenizers(few_reviews):
    texts = [review.text for review in few_reviews.of_split(0, 0)]
    first, *others = (new_tokenizer(lambda: iter(texts), 600) for _ in range(3))
    assert len(first) == 600
    assert all(other.get_vocab() == first.get_vocab() for other in others)
    assert first.tokenize("My SISTER likes cake")[:2] == ["my", "sister"]
