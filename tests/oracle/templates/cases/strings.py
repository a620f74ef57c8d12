"""str's methods and the filters over text."""

TEXT = {
    "s": "  Hello, World  ",
    "u": "ÄÖÜ straße ΣΑΣ ǆ",
    "lines": "one\ntwo\r\nthree\n\nfive",
    "m": "a,b,,c",
    "html": "<a href=\"x\">it's & more</a>",
}

CASES = [
    (
        "strip",
        TEXT,
        [
            "[{{ s.strip() }}] [{{ s.lstrip() }}] [{{ s.rstrip() }}]",
            "[{{ 'xxhixx'.strip('x') }}] [{{ 'xyhiyx'.lstrip('xy') }}] [{{ 'hi\\n\\n'.rstrip('\\n') }}] [{{ ''.strip() }}]",
            "[{{ '\\u2003\\u00a0x\\u3000\\u200b'.strip() | length }}] [{{ 'éàxé'.strip('é') }}] [{{ 'a'.strip('') }}]",
            "[{{ s | trim }}] [{{ 'xxax' | trim('x') }}] [{{ 5 | trim }}] [{{ none | trim }}] [{{ missing | trim }}]",
            "[{{ 'www.example.com'.removeprefix('www.') }}] [{{ 'a.py'.removesuffix('.py') }}] [{{ 'a'.removeprefix('b') }}]",
            "[{{ s.strip(none) }}] [{{ ' a b '.strip(' ') }}]",
        ],
    ),
    (
        "split",
        TEXT,
        [
            "{{ m.split(',') }} {{ m.split(',', 1) }} {{ m.rsplit(',', 1) }} {{ m.split('x') }} {{ ''.split(',') }}",
            "{{ ' a  b\\tc\\n'.split() }} {{ ' a b c '.split(none, 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split() }}",
            "{{ 'a</think>b</think>c'.split('</think>')[-1] }} {{ 'abc'.split('abc') }} {{ 'aXXbXXc'.rsplit('XX', maxsplit=1) }}",
            "{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\\x0bb\\x1cc\\u2028d'.splitlines() }} {{ ''.splitlines() }}",
            "{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ 'abc'.rpartition('=') }}",
            "{{ 'aaa'.split('aa') }} {{ 'aaa'.rsplit('aa') }} {{ m.split(sep=',', maxsplit=2) }} {{ 'a b'.split(' ', -1) }}",
            "{{ m.split(',')[1] }}{{ m.split(',')[9] }}| {{ 'x'.split('y')[0].split('x') }}",
        ],
    ),
    (
        "search",
        TEXT,
        [
            "{{ s.find('l') }} {{ s.rfind('l') }} {{ s.find('zz') }} {{ 'éaé'.find('a') }} {{ 'éaé'.rfind('é') }} {{ 'abc'.index('c') }}",
            "{{ 'banana'.count('a') }} {{ 'banana'.count('ana') }} {{ 'abc'.count('') }} {{ 'banana'.count('a', 2) }} {{ 'banana'.find('a', 2, 3) }}",
            "{{ 'hello'.startswith('he') }} {{ 'hello'.endswith('lo') }} {{ 'hello'.startswith(('x', 'h')) }} {{ 'hello'.startswith('l', 2) }} {{ ''.startswith('') }}",
            "{{ 'hello'.endswith('ll', 0, 4) }} {{ 'hello'.endswith(('a', 'o')) }} {{ 'hello'.startswith('') }} {{ 'a'.find('a', 5) }} {{ 'a'.find('', 5) }}",
            "{{ 'abcabc'.find('c', -3) }} {{ 'abcabc'.rfind('a', 0, -3) }} {{ 'abc'.count('', 1, 2) }}",
        ],
    ),
    (
        "replace",
        TEXT,
        [
            "{{ 'banana'.replace('a', 'o') }} {{ 'banana'.replace('a', 'o', 2) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }}",
            "{{ 'banana' | replace('a', 'o') }} {{ 'banana' | replace('a', 'o', 1) }} {{ 11211 | replace(1, 'x') }} {{ 'éé' | replace('', '.') }}",
            "{{ 'a\\nb' | replace('\\n', '\\\\n') }} {{ 'x'.replace('x', '') }}| {{ ''.replace('', 'a') }} {{ ''.replace('a', 'b') }}|",
            "{{ none | replace('None', 'x') }} {{ 'aaa'.replace('aa', 'b') }} {{ 'x' | replace(old='x', new='y') }}",
        ],
    ),
    (
        "case",
        TEXT,
        [
            "{{ s.upper() }}{{ s.lower() }} {{ u.upper() }} {{ u.lower() }} {{ u.title() }}",
            "{{ u.swapcase() }} {{ u.casefold() }} {{ u.capitalize() }} {{ 'hELLO wORLD'.capitalize() }}",
            "{{ 'they\\'re bill\\'s'.title() }} {{ 'they\\'re bill\\'s' | title }} {{ 'foo-bar (baz) [qux]' | title }} {{ 'a1b' | title }} {{ 'a1b'.title() }}",
            "{{ 'ΑΣ ΑΣΑ Σ ΑΣ. ΑΣ.Α'.lower() }} {{ 'İı'.lower() | length }} {{ 'ﬁn ŉ ß ᾳ'.upper() }} {{ 'ﬁn ß ᾳ'.title() }}",
            "{{ u | upper }} {{ u | lower }} {{ 'x y' | capitalize }} {{ 5 | upper }} {{ true | lower }} {{ missing | upper }}| {{ none | lower }}",
        ],
    ),
    (
        "classes",
        TEXT,
        [
            "{% for v in ['abc', '123', 'a1', ' ', 'ABC', 'Abc', '', 'é', '²', '½', 'Ⅷ', 'a b', '_x', '1x', '\\n', '中', 'ǅ'] %}"
            "{{ v.isalpha() }},{{ v.isdigit() }},{{ v.isdecimal() }},{{ v.isnumeric() }},{{ v.isalnum() }},{{ v.isspace() }},"
            "{{ v.isupper() }},{{ v.islower() }},{{ v.istitle() }},{{ v.isidentifier() }},{{ v.isprintable() }},{{ v.isascii() }};"
            "{% endfor %}",
        ],
    ),
    (
        "pad",
        TEXT,
        [
            "[{{ 'ab'.center(7) }}] [{{ 'abc'.center(6) }}] [{{ 'ab'.center(5, '*') }}] [{{ 'ab'.ljust(5) }}] [{{ 'ab'.rjust(5, '.') }}] [{{ 'é'.rjust(3) }}]",
            "[{{ '42'.zfill(5) }}] [{{ '-42'.zfill(5) }}] [{{ '+4'.zfill(1) }}] [{{ 'ab' | center(6) }}] [{{ 'ab' | center | length }}]",
            "[{{ 'a\\tb'.expandtabs() }}] [{{ 'a\\tb'.expandtabs(2) }}] [{{ 'ab\\n\\tc'.expandtabs(4) }}] [{{ 'a\\tb'.expandtabs(0) }}]",
        ],
    ),
    (
        "join",
        TEXT,
        [
            "{{ ','.join(['a', 'b']) }} {{ ''.join('abc') }} {{ '-'.join({'x': 1, 'y': 2}) }} {{ ','.join([]) }}|",
            "{{ [1, none, 'x', 2.5] | join('-') }} {{ [1, 2] | join }} {{ [] | join(',') }}| {{ 'abc' | join('.') }} {{ missing | join }}|",
            "{{ [{'n': 1}, {'n': 2}] | join('+', attribute='n') }} {{ [{'a': {'b': 1}}] | join(attribute='a.b') }} {{ [[1, 2], [3, 4]] | join(',', 1) }}",
            "{{ ', '.join(['a'] + ['b']) }} {{ [1, 2, 3] | join(d=' ') }} {{ ['x', missing] | join('|') }}",
        ],
    ),
    (
        "format",
        {**TEXT, "p": {"x": 1, "y": [5, 6]}},
        [
            "{{ '{} {}'.format('a', 1) }} {{ '{1} {0}'.format('a', 'b') }} {{ '{x}-{y}'.format(x=1, y=2) }} {{ '{{}}'.format() }}",
            "{{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:5}|{:5}'.format('a', 1) }}",
            "{{ '{:.2f} {:8.3f} {:+d} {:05d} {:,} {:e} {:%}'.format(3.14159, 2.5, 5, 42, 1234567, 12345.678, 0.25) }}",
            "{{ '{:x} {:X} {:#x} {:o} {:b} {:#b}'.format(255, 255, 255, 8, 5, 5) }} {{ '{!r} {!s}'.format('a', 'b') }}",
            "{{ '{0.x} {0[x]} {1[0]}'.format(p, [7]) }} {{ '{:{}}|'.format('a', 4) }} {{ '{}'.format(none) }} {{ '{}'.format(true) }} {{ '{}'.format([1]) }}",
            "{{ '{:.3}'.format('abcdef') }} {{ '{:s}'.format('x') }} {{ '{:d}'.format(true) }} {{ '{:,.2f}'.format(1234567.891) }} {{ '{:_}'.format(1000000) }}",
            "{{ '%s-%s' | format('a', 'b') }} {{ '%(x)s' | format(x=5) }} {{ '%.1f' | format(2.25) }} {{ 'none' | format }}",
            "{{ '{:g} {:g} {:g}'.format(1.0, 1e10, 1e-10) }} {{ '{:10.4}|'.format(3.14159265) }} {{ '{: d}'.format(5) }} {{ '{:=+6d}'.format(5) }}",
        ],
    ),
    (
        "indent",
        TEXT,
        [
            "{{ lines | indent }}",
            "{{ lines | indent(2) }}",
            "{{ lines | indent(2, true) }}",
            "{{ lines | indent(2, first=true, blank=true) }}",
            "{{ lines | indent('> ') }}",
            "{{ 'a\\nb\\n' | indent(1) }}|{{ '' | indent(2, true) }}|{{ 'x' | indent(width=3, first=true) }}",
            "{{ 'a\\n\\n\\nb' | indent(2, blank=true) }}",
        ],
    ),
    (
        "truncate",
        {"t": "The quick brown fox jumps over the lazy dog"},
        [
            "{{ t | truncate(20) }}|{{ t | truncate(20, true) }}|{{ t | truncate(20, false, '…') }}|{{ t | truncate(20, true, '', 0) }}",
            "{{ t | truncate(40) }}|{{ t | truncate }}|{{ 'abcdefghijkl' | truncate(5, leeway=0) }}|{{ t | truncate(length=9, end='#', leeway=0) }}",
        ],
    ),
    (
        "markup",
        TEXT,
        [
            "{{ html | e }} {{ html | escape | escape }} {{ html | forceescape }} {{ html | e | forceescape }} {{ html | safe }}",
            "{{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<b>' | safe) ~ '<i>' }} {{ ('<b>' | safe) + ('<i>' | safe) }}",
            "{{ ('<%s>' | safe) % '<x>' }} {{ ('<{}>' | safe).format('<x>') }} {{ ('<' | safe).join(['<', '>']) }} {{ ('<b>' | safe) * 2 + '<' }}",
            "{{ ('<b>' | safe).upper() + '<' }} {{ ('<b>' | safe)[0] + '<' }} {{ ('a<b' | safe).split('<') }} {{ ('<b>' | safe).replace('b', '<') }}",
            "{{ ['<' | safe] }} {{ ('<' | safe) == '<' }} {{ ('<' | safe) | string + '<' }} {{ ('<' | safe) | upper + '<' }} {{ ('<' | safe) | replace('<', '>') + '<' }}",
            "{{ ('<' | safe) | tojson }} {{ ('<' | safe) | trim + '<' }} {{ ['<' | safe, '<'] | join + '<' }} {{ ('<' | safe) is string }} {{ 5 | e }} {{ none | safe }}",
            "{% set x = 'Use \\'' | safe + html %}{{ x }} {% set y %}<{% endset %}{{ y + '<' }} {{ ('<b>' | safe).strip('<') + '<' }}",
            "{{ ('<b>' | safe).lower().title() + '<' }} {{ ('a' | safe).center(3) + '<' }} {{ ('<a>' | safe)[1:] + '<' }} {% for c in '<>' | safe %}{{ c + '<' }}{% endfor %}",
        ],
    ),
    (
        "other",
        TEXT,
        [
            "{{ 'Hello World, it\\'s 2 o-clock' | wordcount }} {{ 'a b&c/d é' | urlencode }} {{ {'a b': 'c/d', 'e': 1} | urlencode }} {{ [('a', 'ü')] | urlencode }}",
            "{{ s | length }} {{ '👩‍👩‍👧' | length }} {{ 'é' | count }} {{ 'abc' | first }}{{ 'abc' | last }} {{ 'abc' | list }} {{ 'abc' | reverse }} {{ 'éa' | last }}",
            "{{ 'abc' | string }} {{ 5 | string + 'x' }} {{ [1] | string }} {{ none | string }} {{ missing | string }}| {{ 1.0 | string }} {{ true | string }}",
        ],
    ),
]
