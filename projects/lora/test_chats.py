"""What chat models are trained on: spans, loss masks, cuts and tools."""

import dataclasses
import json
import re

import pytest
from served import recipe
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tod_bias import Dialogue, Step, Turn
from tod_bias.dialogues.chat import to_messages
from tod_bias.errors import ModelError
from tod_bias.models.examples import IGNORED
from tod_bias.models.from_scratch import new_tokenizer

templates, chats = recipe("chat_template"), recipe("chats")
CHATML, CHATML_MARKS, ChatTemplate = templates.CHATML, templates.CHATML_MARKS, templates.ChatTemplate
template_source, with_read_arguments = templates.template_source, templates.with_read_arguments
OfferedTools, chat_sequences, read_tools = chats.OfferedTools, chats.chat_sequences, chats.read_tools

OWN = template_source(CHATML, None, "")
FIND = {"type": "function", "function": {"name": "find", "parameters": {}}}
BOOK = {"type": "function", "function": {"name": "book"}}
STEPS = (
    Step({"api_name": "find", "seats": 2}, ({"id": "a"},), "One moment."),
    Step({"api_name": "book", "id": "a"}),
)
TURNS = (Turn("Two seats.", steps=STEPS, response="Done, Zoë."), Turn("Thanks.", response="Bye."))
DIALOGUE = Dialogue("d", "Seats", TURNS, system="Be kind.")
LONG_TURNS = tuple(
    Turn.with_call(f"I want {n} seats.", {"api_name": "find", "seats": n}, {"id": f"id{n}"}, f"Here are {n}.")
    for n in range(9)
)
LONG = Dialogue("l", "Seats", LONG_TURNS, system="Be kind.")


def template(source=OWN):
    return ChatTemplate(source, "m", {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})


def words(texts):
    """A tokenizer whose tokens are the words between spaces, and ChatML's marks."""
    found = sorted({word for text in texts for word in re.sub(r"<\|im_\w+\|>", " ", text).split()})
    vocabulary = {word: number for number, word in enumerate(["<unk>", *found])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
    fast.add_special_tokens({"bos_token": CHATML_MARKS[0], "eos_token": CHATML_MARKS[1]})
    return fast


def messages_of(dialogue):
    return list(with_read_arguments(to_messages(dialogue)))


def text_of(dialogue, tools=()):
    return template().render(messages_of(dialogue), tools)


@pytest.fixture(scope="module")
def tokenizer():
    made = new_tokenizer([text_of(DIALOGUE), text_of(LONG)], 400, causal=True)
    made.add_special_tokens({"additional_special_tokens": list(CHATML_MARKS)})
    made.eos_token = CHATML_MARKS[1]
    return made


READ, CALL, SAID = "r", "c", "s"
TABLE = """
<|im_start|>r system r Be r kind. r Functions r you r can r call: r <tools> r
{"name": r "find", r "parameters": r {}} r {"name": r "book"} r </tools> r
To r call r one, r write r <tool_call>{"name": r its r name, r "arguments": r {…}}</tool_call>. r <|im_end|> r
<|im_start|> r user r Two r seats. r <|im_end|> r
<|im_start|> r assistant r
One c moment. c <tool_call>{"name": c "find", c "arguments": c {"seats": c 2}}</tool_call> c <|im_end|> c
<|im_start|> r tool r <tool_response>{"id": r "a"}</tool_response> r <|im_end|> r
<|im_start|> r assistant r
<tool_call>{"name": c "book", c "arguments": c {"id": c "a"}}</tool_call> c <|im_end|> c
<|im_start|> r tool r <tool_response>[]</tool_response> r <|im_end|> r
<|im_start|> r assistant r Done, s Zoë. s <|im_end|> s
<|im_start|> r user r Thanks. r <|im_end|> r
<|im_start|> r assistant r Bye. s <|im_end|> s
""".replace("<|im_start|>r", "<|im_start|> r").split()


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        ({}, {CALL, SAID}),
        ({"parts": ("api_call",)}, {CALL}),
        ({"parts": ("response",)}, {SAID}),
        ({"loss": "all"}, {READ, CALL, SAID}),
        ({"loss": "all", "parts": ("response",)}, {READ, CALL, SAID}),
    ],
)
def test_every_token_and_whether_it_counts(options, counted):
    tools = OfferedTools((FIND, BOOK))
    tokenizer = words([text_of(DIALOGUE, tools.everywhere)])
    (sequence,) = chat_sequences([DIALOGUE], tokenizer, template(), tools=tools, **options).sequences
    found = [
        (tokenizer.convert_ids_to_tokens(token), label != IGNORED)
        for token, label in zip(sequence.input_ids, sequence.labels, strict=True)
    ]
    assert found == [(word, kind in counted) for word, kind in zip(TABLE[::2], TABLE[1::2], strict=True)]
    assert all(label in (IGNORED, token) for token, label in zip(sequence.input_ids, sequence.labels, strict=True))


def test_training_and_prompts_have_equal_tokens(tokenizer):
    tokenizer.chat_template = OWN
    messages = messages_of(DIALOGUE)
    (sequence,) = chat_sequences([DIALOGUE], tokenizer, template(), tools=OfferedTools((FIND,))).sequences
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt = tokenizer.apply_chat_template(messages[:number], tools=[FIND], add_generation_prompt=True)["input_ids"]
        assert list(sequence.input_ids[: len(prompt)]) == prompt
        assert sequence.labels[len(prompt) - 1] == IGNORED
        assert sequence.labels[len(prompt)] == sequence.input_ids[len(prompt)]
        end = sequence.labels.index(tokenizer.eos_token_id, len(prompt))
        written = tokenizer.decode(sequence.labels[len(prompt) : end + 1])
        assert (message["content"] or "") in written
        assert written.count("<|im_end|>") == 1


MARKED = """{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ m.tool_calls[0] | tojson if m.tool_calls }}<|im_end|>
{% endgeneration %}{% else %}{{ m.content }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def test_marks_of_a_template_say_what_the_assistant_writes():
    plain = MARKED.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    marked, found = (template(source).spans(messages_of(DIALOGUE)) for source in (MARKED, plain))
    assert "".join(span.text for span in marked) == "".join(span.text for span in found)
    said, expected = (
        [(span.message, span.text.removesuffix("\n")) for span in spans if span.message is not None]
        for spans in (marked, found)
    )
    assert said == expected  # through the mark that ends texts; the line feed behind it may count or not


@pytest.mark.parametrize("length", [170, 230, 340, 5000])
@pytest.mark.parametrize("loss", ["targets", "all"])
def test_pieces_of_a_long_dialogue_are_whole_turns_and_train_every_target_once(tokenizer, length, loss):
    tools = OfferedTools((FIND,))
    whole = chat_sequences([LONG], tokenizer, template(), tools=tools).sequences[0]
    found = chat_sequences([LONG], tokenizer, template(), tools=tools, max_length=length, loss=loss)
    assert found.left_out == 0
    assert found.split == (length < 5000)
    head = text_of(dataclasses.replace(LONG, turns=()), [FIND])
    whole_turns = {
        text_of(dataclasses.replace(LONG, turns=LONG.turns[start:end]), [FIND])
        for start in range(9)
        for end in range(start + 1, 10)
    }
    assert all(len(piece) <= length for piece in found.sequences)
    assert {tokenizer.decode(piece.input_ids) for piece in found.sequences} <= whole_turns
    trained = [label for piece in found.sequences for label in piece.labels if label != IGNORED]
    if loss == "targets":
        assert trained == [label for label in whole.labels if label != IGNORED]
    else:  # heads of pieces that begin anew count again, and line feeds between pieces
        turns = tokenizer.decode(list(whole.input_ids)).removeprefix(head)
        assert tokenizer.decode(trained).replace(head, "").replace("\n\n", "\n") == turns


def test_later_pieces_have_context(tokenizer):
    found = chat_sequences([LONG], tokenizer, template(), max_length=300).sequences
    assert all(list(piece.input_ids).count(tokenizer.eos_token_id) > 5 for piece in found)
    first_label = [next(i for i, label in enumerate(piece.labels) if label != IGNORED) for piece in found]
    assert all(place > 50 for place in first_label[1:])


def test_a_turn_longer_than_a_sequence_is_left_out_and_counted(tokenizer):
    huge = Turn("x " * 300, response="Never.")
    dialogue = dataclasses.replace(LONG, turns=(*LONG.turns[:2], huge, *LONG.turns[2:]))
    found = chat_sequences([dialogue], tokenizer, template(), max_length=200)
    assert found.left_out == 1
    text = tokenizer.decode([label for piece in found.sequences for label in piece.labels if label != IGNORED])
    assert "Never." not in text
    assert all(f"Here are {n}." in text for n in range(9))
    assert max(map(len, found.sequences)) <= 200


def test_the_system_message_of_the_option_is_for_dialogues_that_have_none(tokenizer):
    plain = dataclasses.replace(DIALOGUE, system="")
    found = chat_sequences([plain, DIALOGUE], tokenizer, template(), system="Be brief.").sequences
    for sequence, system in zip(found, ("Be brief.", "Be kind."), strict=True):
        assert tokenizer.decode(sequence.input_ids).startswith(f"<|im_start|>system\n{system}<|im_end|>")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (OWN.replace("{{ message.content or '' }}\n", "{{ messages | length }}", 1), "another way than the whole chat"),
        ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "does not write tool calls"),
        ("{{ raise_exception('only users') }}", "its chat template fails: only users"),
        ("{% for %}", "its chat template fails: "),
        (
            MARKED.replace("{{ m.content }}{{ m.tool", "{% endgeneration %}{% generation %}{{ m.tool"),
            "marks 8 texts of",
        ),
    ],
)
def test_templates_that_cannot_be_used_say_why(tokenizer, source, message):
    with pytest.raises(ModelError, match=rf"^m: .*{message}") as error:
        chat_sequences([DIALOGUE], tokenizer, template(source))
    assert "\n" not in str(error.value)


def test_a_template_is_read_or_missed_in_one_line(tmp_path, tokenizer):
    plain = new_tokenizer(["a"], 300, causal=True)
    with pytest.raises(ModelError, match=r"^gpt: its tokenizer has no chat template"):
        template_source(None, plain, "gpt")
    with pytest.raises(ModelError, match=r"^--chat-template .*none.jinja: cannot be read"):
        template_source(str(tmp_path / "none.jinja"), plain, "gpt")
    (tmp_path / "own.jinja").write_text("x")
    assert template_source(str(tmp_path / "own.jinja"), plain, "gpt") == "x"
    plain.chat_template = {"default": "d", "tool_use": "t"}
    assert template_source(None, plain, "gpt") == "t"


def test_tools_are_for_all_or_by_domain(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([FIND, BOOK]))
    assert read_tools(path).of(DIALOGUE) == (FIND, BOOK)
    path.write_text(json.dumps({"Seats": [FIND], "Beds": [BOOK, FIND]}))
    assert read_tools(path).of(DIALOGUE) == (FIND,)
    assert read_tools(path).of(dataclasses.replace(DIALOGUE, domain="Seats, Beds")) == (FIND, BOOK)
    with pytest.raises(ModelError, match="has none for the domain 'Cars' of dialogue 'd'; it has Beds, Seats"):
        read_tools(path).of(dataclasses.replace(DIALOGUE, domain="Cars"))
    assert read_tools(None).of(DIALOGUE) == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "cannot be read as JSON"),
        ('["find"]', "tool 1: expected"),
        (json.dumps([FIND, FIND]), "tool 2: a tool before it is named 'find' too"),
        ('{"Seats": {}}', "domain 'Seats': expected a list of"),
    ],
)
def test_a_broken_file_of_tools_is_named_in_one_line(tmp_path, content, message):
    (tmp_path / "tools.json").write_text(content)
    with pytest.raises(ModelError, match=rf"^\S+tools\.json.*{message}") as error:
        read_tools(tmp_path / "tools.json")
    assert "\n" not in str(error.value)
