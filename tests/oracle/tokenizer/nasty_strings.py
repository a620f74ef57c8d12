#!/usr/bin/env python3
"""Writes strings.json: texts that trip tokenizers. All valid UTF-8 (the oracles take nothing else)."""

import json
import os
import random

SPECIAL_LOOKALIKES = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>", "<|im_start", "im_start|>",
    "<|im_start|", "<|im_start|>>", "<<|im_start|>", "<|im_end|><|im_end|>", " <|im_end|> ", "<|im_\u200bend|>",
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|>\n\n<|endoftext|>", "<|ENDOFTEXT|>", "<|endoftext |>",
    "<|begin_of_text|>x<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|>",
    "<|reserved_special_token_0|>", "<|reserved_special_token_2500|>", "<s>", "</s>", "<s>hello</s>", " <s> a </s> ",
    "<s><s></s></s>", "<unk>", "<pad>", "<bos>hi<eos>", "<eos>", "<start_of_turn>user\nHi<end_of_turn>\n", "<mask>",
    "<unused0>", "<unused12> <unused123>", "<0x41>", "<0x0A>", "<0x", "<0xZZ>", "[INST] hi [/INST]", "<<SYS>>\nx\n<</SYS>>",
    "<|user|>\nhi<|end|>\n<|assistant|>", "<fim_prefix>def f():<fim_suffix>pass<fim_middle>", "<file_sep>a.py",
    "<repo_name>x/y", "<jupyter_code>", "[PAD151646]", "[multimodal]", "<start_of_image>", "<table><tr><td>x</td></tr></table>",
    "<h1>Title</h1>", "<|", "|>", "<", "<|>", "<||>", "<|im_start|>" * 5, "Ġhello", "Ċ", "▁hello", "▁", "▁▁▁", "a▁b", "▁ ▁",
]

WHITE_SPACE = [
    "", " ", "  ", "   ", "    ", " " * 7, " " * 15, " " * 16, " " * 17, " " * 31, " " * 32, " " * 33, " " * 64, " " * 100,
    "\t", "\t\t", "\t\t\t\t", "\t" * 31, "\t" * 33, "\n", "\n\n", "\n\n\n", "\n" * 31, "\n" * 33, "\r", "\r\n", "\r\n\r\n",
    "\n\r", "\r\r\n", " \n", "\n ", " \n ", "  \n\n  ", "\t \t \n \t", "a ", " a", "  a", "   a", "a  ", "a  b", "a   b",
    "a \n b", "a\tb", "a\t\tb", "a\t b", "a \tb", "a\n\nb", "a\r\nb", "a\r\n\r\n  b", "\x0b", "\x0c", "a\x0bb\x0cc",
    "\x85", "a\x85b", "\u00a0", "a\u00a0b", "a \u00a0 b", "\u00a0\u00a0a", "\u1680", "\u180e", "a\u180eb", "\u2003", "a\u2003b",
    "\u2028", "a\u2028b\u2029c", "\u202f", "1\u202f000", "\u205f", "\u3000", "\u3000\u3000a", "a\u3000b", "\u200b", "a\u200bb",
    "\ufeff", "\ufeffhello", "\u2060x", "if x:\n    return\n\n\n    pass\n", "1  2", "a  1", "a   12", "1 \n2", "  1", "\t1",
    " \t\u00a0\u2003\n", "!  ?", " !", "  !", "\n!", "a\n", "a \n", "  \r\n  a",
]

NUMBERS = [
    "0", "1", "12", "123", "1234", "12345", "1234567890", "9" * 40, "3.14159265358979", "1,234,567.89", "1e-10", "0x1F4A9",
    "192.168.0.1", "2024-02-29T23:59:60Z", "v1.2.3-rc4", "a1b2c3", "1a", "a1", " 1", "  12", "-5", "+5", "1/2", "½¾", "²³", "x²",
    "٣٤٥", "१२३", "一二三", "Ⅷ", "①②③", "１２３", "1٣1", "𝟙𝟚𝟛", "㊿", "1" * 300, "12 345 678", "0001", "1_000_000", "7" * 3 + "x" + "7" * 4,
]

CONTRACTIONS = [
    "I'm", "I'M", "you're", "YOU'RE", "we've", "WE'VE", "it's", "IT'S", "don't", "DON'T", "he'll", "HE'LL", "she'd", "SHE'D",
    "'s", "'S", "'", "''", "'''", "'tis", "'twas", "rock'n'roll", "o'clock", "I’m", "it’s", "'ſ", "x'ſy", "'re're", "'l", "'ll'v'e",
    "'\n's", " 's", "1's", "é's", "'sam", "'LL", "'Ll", "'Vee",
]

SCRIPTS = [
    "Hello, world!", "Grüße aus München", "naïve café résumé", "Ελληνικά", "Привет, мир!", "Съешь же ещё этих мягких французских булок",
    "こんにちは世界", "カタカナ", "ｶﾀｶﾅ", "你好，世界！", "北京大学2024年招生", "안녕하세요", "ㅎㅇ", "한국어 텍스트 123", "مرحبا بالعالم",
    "שלום עולם", "שָׁלוֹם", "नमस्ते दुनिया", "हिन्दी में कुछ", "বাংলা", "ภาษาไทย", "สวัสดีครับ", "ქართული", "Հայերեն", "አማርኛ", "ᚠᛇᚻ",
    "တြန်မာ", "ខ្មែរ", "ລາວ", "བོད་ཡིག", "Tiếng Việt", "Türkçe İstanbul ıI", "Ⴀⴀ", "𐐷𐐲𐑌", "𒀀𒁀", "𓂀𓃀", "𝕳𝖊𝖑𝖑𝖔", "ﬁﬂ", "ǅ", "ß ẞ",
    "mixed русский and 中文 und Ελλ", "abcабвгдеαβγ漢字かな", "a中b文c", "日本語text混在", "Ǆungla", "ʻokina", "ªº", "µm", "Ω Å K",
]

EMOJI = [
    "😀", "😀😁😂", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷🇯🇵", "🇩", "❤️", "❤", "☺️", "1️⃣", "#️⃣", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "👨🏿‍🚀 on 🌕", "🤷🏻‍♀️", "a😀b", " 😀", "😀 ",
    "🫠🫡🪿", "🀄🃏", "♠♥♦♣", "✂️✔️", "🧑‍💻🧑🏽‍🤝‍🧑🏻", "\U0001f9d1\u200d", "\u200d", "\ufe0f", "💩" * 20,
]

MARKS = [
    "é", "e\u0301", "e\u0301\u0302\u0303", "\u0301", " \u0301", "a\u0301 b", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘", "ḍ̇", "क्षि", "นี้", "؀123",
    "\u034f", "x\u20e3", "\u0e33", "각", "각", "ﷺ", "\u1112\u1161\u11ab",
]

PUNCTUATION = [
    "!", "!!!", "?!?!", "...", "…", "----", "————", "a-b", "a--b", "a.b.c", "a, b; c: d", "(a)", "[[a]]", "{{x}}", "\"quoted\"",
    "“quoted” ‘single’", "«guillemets»", "¿Qué?", "¡Hola!", "$100", "€100", "100%", "a+b=c", "<=>", "a^b~c|d`e`", "§5 ¶2", "a_b__c",
    "@user #tag", "http://example.com/a?b=c&d=e#f", "user@example.com", "C:\\Windows\\System32", "/usr/bin/env", "\\n\\t", "***bold***",
    "=" * 80, "-" * 79, "#" * 10, "/" * 50, "+-*/%&|^~!", "。、！？", "（全角）", "！！！", "、。、。", " .", ". .", ".\n", ".\n\n", ".\r\n", "!\n\n\n!",
    "\u2026\n", ").\n\n(", "`$+<=>^~|", "٪؟،",
]

CODE = [
    "def f(x):\n    return x**2 if x > 0 else -x\n", "for (int i=0;i<n;++i){a[i]+=b[i];}", "#include <stdio.h>\nint main(void) { return 0; }\n",
    "\tif (a && b) {\n\t\treturn;\n\t}\n", "SELECT * FROM t WHERE a='b' AND c IS NOT NULL;", "<html>\n  <body class=\"x\">&nbsp;</body>\n</html>",
    "{\"a\": [1, 2.5, null, true], \"b\": {\"c\": \"\\u00e9\"}}", "x = lambda *a, **k: None  # comment", "std::vector<std::unique_ptr<T>>&&",
    "fn main() -> Result<(), Box<dyn Error>> { Ok(()) }", "camelCaseIdentifier snake_case_identifier SCREAMING_CASE", "i++;//--j",
    "$\\int_0^1 x^2\\,dx = \\frac{1}{3}$", "```python\nprint('hi')\n```", "| a | b |\n|---|---|\n| 1 | 2 |", "    " * 5 + "x", "\t" * 9 + "y",
    "rm -rf / && echo \"$HOME\" | grep -E '^[a-z]+$'", "0b1010 & ~0xFF << 3", "a?.b ?? c!", "\x1b[31mred\x1b[0m",
]

CONTROL_BYTES = [
    "\x00", "a\x00b", "\x00\x00\x00", "\x01\x02\x03\x04", "\x07\x08", "\x1b", "\x1c\x1d\x1e\x1f", "a\x1fb", "\x7f", "\x80", "\x9f", "a\x80b",
    "\u00ad", "soft\u00adhyphen", "\u200e\u200f", "\u202eabc", "\u2066x\u2069", "\ufffd", "a\ufffdb", "\ufffe", "\uffff", "\U0010ffff", "\ue000",
    "\U000f0000", "\U000e0001", "\ud7ff", "\uf8ff", "\ufff9x\ufffa", "\x13\x14\x16", " \x01", "\x01\n",
]

NEW_LETTERS = ["\U00031350\U000323af", "\U0002ebf0", "\u1c89", "\ua7cb", "\U00010d4a", "\U00010d40", "\U00013460", "\U0001e5f1", "\u0378", "\U0001fae9"]

RUNS = [
    "a" * 100, "ab" * 100, "A" * 257, "z" * 1000, "aA" * 64, "é" * 100, "中" * 100, "the" * 60, "ha" * 77 + "!", "0" * 128, "e\u0301" * 60,
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.",
    "antidisestablishmentarianism", "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "ACGTACGTTAGCCGATTAGC" * 5, "q" * 33, "x" * 31 + "y", "VGhlIHF1aWNrIGJyb3duIGZveA==", "d41d8cd98f00b204e9800998ecf8427e",
    "The quick brown fox jumps over the lazy dog. " * 4, " the the the", "  leading and trailing  ",
]


def random_strings():
    """Mixtures of everything, drawn once and for all."""
    rng = random.Random(20240229)
    pool = list("abc XYZ'\n\t 019.,!?-_<|>▁") + ["  ", "\r\n", "é", "ß", "中", "あ", "한", "م", "न", "्", "😀", "\u200d", "\u0301", "\u00a0",
                                                "'s", "'LL", " the", "<|im_end|>", "<s>", "½", "٣", "\x00", "\u2028", "\u3000", "𝟙"]
    return ["".join(rng.choice(pool) for _ in range(rng.randint(3, 60))) for _ in range(60)]


def main():
    groups = [SPECIAL_LOOKALIKES, WHITE_SPACE, NUMBERS, CONTRACTIONS, SCRIPTS, EMOJI, MARKS, PUNCTUATION, CODE, CONTROL_BYTES,
              NEW_LETTERS, RUNS, random_strings()]
    strings = list(dict.fromkeys(text for group in groups for text in group))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "strings.json")
    with open(path, "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(text) for text in strings) + "\n]\n")
    print(f"{len(strings)} strings")


if __name__ == "__main__":
    main()
