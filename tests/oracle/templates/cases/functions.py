"""Macros, callers, global functions."""

DATA = {"xs": [1, 2, 3], "d": {"a": 1}, "args": [1, 2], "kw": {"b": 5}}

CASES = [
    (
        "macro",
        DATA,
        [
            "{% macro hi(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}{{ hi('A') }} {{ hi('B', '?') }} {{ hi(name='C') }} {{ hi('D', mark='.') }}",
            "{% macro m(a, b=a, c=a ~ b) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(1, c=3) }}",
            "{% macro m(a) %}[{{ a }}]{{ a is defined }}{% endmacro %}{{ m() }} {{ m(none) }} {{ m(missing) }}",
            "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }} {{ m() }}",
            "{% macro m(a) %}{{ a }}|{{ varargs | join(',') }}|{{ kwargs.z }}{% endmacro %}{{ m(1, 2, 3, z=4) }}",
            "{% macro fact(n) %}{{ 1 if n <= 1 else n * (fact(n - 1) | int) }}{% endmacro %}{{ fact(10) }}",
            "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b!{% endmacro %}{{ a() }}",
            "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}[{{ m(1) }}]{{ m('y') | upper }}{{ m(2) ~ '!' }}",
            "{{ m is defined }}{% macro m(a, b=1) %}{% endmacro %}{{ m.name }} {{ m.arguments }} {{ m.catch_kwargs }} {{ m.catch_varargs }} {{ m.caller }}",
            "{% macro m(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ m(*args) }} {{ m(1, **kw) }} {{ m(*[1], **{'b': 2}) }}",
            "{% set f = 1 %}{% macro f() %}macro{% endmacro %}{{ f() }} {% macro t(v) %}{{ v if v is string else v | tojson }}{% endmacro %}{{ t('s') }}{{ t({'a': 1}) }}",
            "{% macro m(v) %}{% if v is mapping %}{% for k, w in v.items() %}{{ k }}:{{ m(w) }};{% endfor %}{% else %}{{ v }}{% endif %}{% endmacro %}{{ m({'a': {'b': 1}, 'c': 2}) }}",
            "{% if true %}{% macro m() %}in if{% endmacro %}{% endif %}{{ m() }} {% set g = m %}{{ g() }}",
            "{% macro m() %}\nx\n{% endmacro %}{{ m() | trim }} {% if m() %}t{% endif %} {{ m() == '\nx\n' }} {{ m() | length }}",
        ],
    ),
    (
        "call",
        DATA,
        [
            "{% macro box() %}<{{ caller() }}>{% endmacro %}{% call box() %}in{% endcall %}",
            "{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(v) each(xs) %}[{{ v }}]{% endcall %}",
            "{% macro m(a) %}{{ a }}{{ caller() if caller }}{% endmacro %}{{ m(1) }} {% call m(2) %}c{% endcall %}",
            "{% macro m() %}{{ caller('x', b='y') }}{% endmacro %}{% call(a, b='z') m() %}{{ a }}{{ b }}{% endcall %}",
            "{% set q = 'out' %}{% macro m() %}{% set q = 'in' %}{{ caller() }}{% endmacro %}{% call m() %}{{ q }}{% endcall %}",
        ],
    ),
    (
        "globals",
        DATA,
        [
            "{{ range(3) | list }} {{ range(1, 3) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }} {{ range(-1) | list }} {{ range(3)[1:] | list }}",
            "{{ range(3) == range(3) if false else 'x' }} {{ 2 in range(3) }} {{ range(10) | sum }} {{ range is defined }} {{ raise_exception is defined }} {{ strftime_now is defined }}",
            "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}",
            "{% set j = joiner(', ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %} {% set k = joiner() %}{{ k() }}a{{ k() }}b",
            "{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %d, %Y') }} {{ strftime_now('%A %a %j %p %I %y %e') }}",
            "{{ strftime_now('%% %-d/%-m %-H %F %T %D %R %U %W %V %G %u %w') }} {{ strftime_now('%c|%x|%X|%h|%C|%n|%t|%f|%z|%Z|') }} {{ strftime_now('') }}|",
            "{{ dict is callable }} {{ namespace is callable }} {{ dict(a=1).a }} {{ dict(a=1) | tojson }}",
            "{% set range = 5 %}{{ range }} {% set dict = {'a': 1} %}{{ dict.a }}",
        ],
    ),
]
