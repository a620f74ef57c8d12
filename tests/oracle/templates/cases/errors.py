"""What must fail, on both sides."""

DATA = {"l": [1], "d": {"a": 1}, "s": "x", "z": None, "n": 1}

CASES = [
    (
        "syntax",
        DATA,
        [
            "{{", "{{ }}", "{{ 1", "{% if %}{% endif %}", "{% if x %}", "{% endif %}", "{% for %}{% endfor %}", "{% for x xs %}{% endfor %}",
            "{% for x in %}{% endfor %}", "{% nonsense %}", "{% %}", "{{ 1 2 }}", "{{ 1 + }}", "{{ (1 }}", "{{ [1, }}", "{{ {'a'} }}", "{{ {'a': } }}",
            "{{ x. }}", "{{ x[] }}", "{{ x | }}", "{{ x | 5 }}", "{{ x is }}", "{{ 'abc }}", "{{ \"abc' }}", "{# open", "{% raw %}x", "{% set %}", "{% set 1 = 2 %}",
            "{% set x %}", "{% set x = %}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% macro m(1) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}",
            "{% if x %}{% endfor %}", "{% for x in l %}{% endif %}", "{% else %}", "{{ ? }}", "{{ a ! b }}", "{{ 'a' is string is defined }}", "{{ f(a=1, 2) }}", "{{ f(**a, 1) }}",
            "{{ '\\x4' }}", "{{ '\\u12' }}", "{{ '\\ud800' }}", "{% call x %}{% endcall %}", "{% filter %}{% endfilter %}", "{{ ) }}", "{{ (] }}", "{% break %}", "{% set true = 1 %}",
            "{% with a %}{% endwith %}", "{{ 1 if }}", "{{ not }}", "{% for a.b in l %}{% endfor %}", "{{ x is divisibleby( }}", "{{ 007 }}", "{% if x %}{% else %}{% elif y %}{% endif %}",
        ],
    ),
    (
        "unknown",
        DATA,
        [
            "{{ 1 | nothing }}", "{{ 1 is nothing }}", "{{ l | map('nothing') | list }}", "{{ l | select('nothing') | list }}", "{% if true %}{{ 1 | nothing }}{% endif %}",
            "{{ nothing() }}", "{{ nothing.x }}", "{{ nothing['x'] }}", "{{ nothing.x.y }}", "{{ d.x.y }}", "{{ d.x() }}", "{{ l[5].x }}", "{{ s.nothing() }}", "{{ z.x.y }}",
        ],
    ),
    (
        "types",
        DATA,
        [
            "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ 'a' + none }}", "{{ none + 1 }}", "{{ [1] + (1,) }}", "{{ {} + {} }}", "{{ 'a' - 'b' }}", "{{ 'a' * 'b' }}", "{{ missing + 1 }}", "{{ 'a' + missing }}",
            "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1.0 / 0 }}", "{{ 0 ** -1 }}", "{{ -'a' }}", "{{ +none }}", "{{ -missing }}",
            "{{ 1 < 'a' }}", "{{ none < none }}", "{{ {} < {} }}", "{{ missing < 1 }}", "{{ [1] < ['a'] }}", "{{ 1 in 'abc' }}", "{{ 'a' in 5 }}", "{{ 'a' in none }}", "{{ [] in {} }}", "{{ none in 'a' }}",
            "{{ z() }}", "{{ 5() }}", "{{ s() }}", "{{ l() }}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [[1]] %}{% endfor %}",
            "{% set a, b = [1, 2, 3] %}", "{% set d.a = 5 %}", "{% set missing.a = 5 %}", "{{ z[1:] }}", "{{ d[1:] }}", "{{ l['a':] }}", "{{ l[::0] }}", "{{ missing[1:] }}", "{{ l[1.5:] }}",
            "{{ {[]: 1} }}", "{{ {{}: 1} }}",
        ],
    ),
    (
        "filters",
        DATA,
        [
            "{{ 5 | length }}", "{{ none | length }}", "{{ 5 | list }}", "{{ none | list }}", "{{ 5 | first }}", "{{ l | map('upper') | last }}", "{{ l | map('string') | length }}", "{{ [1, 'a'] | sort }}", "{{ [none, 1] | max }}",
            "{{ ['a'] | sum }}", "{{ missing | abs }}", "{{ 'a' | abs }}", "{{ 'a' | round }}", "{{ 1.5 | round(1, 'up') }}", "{{ missing | int }}", "{{ missing | float }}", "{{ none | indent }}", "{{ missing | indent }}", "{{ 5 | items | list }}",
            "{{ none | items | list }}", "{{ l | dictsort }}", "{{ d | dictsort(by='x') }}", "{{ missing | tojson }}", "{{ [missing] | tojson }}", "{{ namespace() | tojson }}", "{{ range(3) | tojson }}", "{{ d.items() | tojson }}", "{{ 'a' | replace('a') }}",
            "{{ 'a' | upper(1) }}", "{{ 'a' | trim(1, 2) }}", "{{ l | join(',', nothing=1) }}", "{{ [[1]] | unique | list }}", "{{ 'inf' | float | int }}", "{{ l | map }}{{ l | map | list }}", "{{ l | selectattr | list }}", "{{ 'a' | truncate(1) }}",
            "{{ '%d' | format('x') }}", "{{ '%s %s' % 'a' }}", "{{ '%s' % (1, 2) }}", "{{ '%q' % 1 }}", "{{ '%' % 1 }}", "{{ '%(a)s' % 1 }}", "{{ '{}'.format() }}", "{{ '{a}'.format() }}", "{{ '{'.format() }}", "{{ '}'.format() }}", "{{ '{:d}'.format('a') }}", "{{ '{} {0}'.format(1, 2) }}",
            "{{ {'a': 1, 2: 3} | tojson(sort_keys=true) }}", "{{ l | batch }}", "{{ l | slice(0) | list }}",
        ],
    ),
    (
        "calls",
        DATA,
        [
            "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
            "{{ s.split('') }}", "{{ s.split(1) }}", "{{ s.index('q') }}", "{{ l.index(9) }}", "{{ s.upper(1) }}", "{{ s.startswith(1) }}", "{{ s.startswith() }}", "{{ ','.join([1]) }}", "{{ s.center('x') }}", "{{ s.center(9, 'ab') }}", "{{ s.partition('') }}", "{{ s.replace('a') }}",
            "{{ l.append(1) }}", "{{ l.sort() }}", "{{ d.update({}) }}", "{{ d.pop('a') }}", "{{ d.setdefault('b', 1) }}", "{{ d.clear() }}", "{{ s.__class__.x }}", "{{ d.get() }}", "{{ d.get([]) }}", "{{ d.items(1) }}", "{{ [1].count() }}",
            "{{ range() }}", "{{ range('a') }}", "{{ range(1, 2, 0) }}", "{{ range(100001) }}", "{{ namespace(1) }}", "{{ dict(1) }}", "{{ dict([1]) }}", "{{ dict({}, {}) }}", "{{ cycler() }}", "{{ raise_exception('boom') }}", "{{ raise_exception() }}", "{{ strftime_now() }}", "{{ strftime_now(1) }}",
            "{% for x in l %}{{ loop(l) }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}", "{{ s.format_map() }}", "{{ s(*5) }}", "{{ dict(**5) }}", "{{ dict(a=1, **{'a': 2}) }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        ],
    ),
]
