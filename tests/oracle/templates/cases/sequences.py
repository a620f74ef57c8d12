"""Filters over lists and dicts, conversions, JSON."""

DATA = {
    "l": [3, 1, 2, 1],
    "names": ["b", "A", "c", "a"],
    "d": {"b": 2, "a": 1, "C": 3},
    "people": [
        {"name": "Ann", "age": 30, "tags": ["x"], "home": {"city": "Bern"}},
        {"name": "bob", "age": 25, "tags": [], "home": {"city": "aarau"}},
        {"name": "Cid", "age": 30, "home": {"city": "Bern"}},
    ],
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "tool_calls": [1]},
        {"role": "user", "content": "v"},
    ],
    "tree": {"k": [1, 2.5, "x\"y\\z\n\t\u0001é\u2028😀/", None, True, {}], "empty": [], "n": {"a": {"b": []}}},
    "big": 18446744073709551615,
}

CASES = [
    (
        "ends",
        DATA,
        [
            "{{ l | first }} {{ l | last }} {{ [] | first }}| {{ [] | last }}| {{ d | first }} {{ d | last }} {{ 'x' | first }} {{ missing | first }}|",
            "{{ l | length }} {{ d | count }} {{ [] | length }} {{ missing | length }} {{ range(5) | length }} {{ d.items() | length }}",
            "{{ range(3) | last }} {{ range(3) | first }} {{ (1, 2) | last }} {{ d.keys() | first }} {{ d.values() | last }}",
        ],
    ),
    (
        "list",
        DATA,
        [
            "{{ 'abc' | list }} {{ d | list }} {{ range(3) | list }} {{ d.items() | list }} {{ missing | list }} {{ (1, 2) | list }}",
            "{{ l | reverse | list }} {{ 'abc' | reverse }} {{ range(4) | reverse | list }} {{ d | reverse | list }} {{ (1, 2) | reverse | join }}",
        ],
    ),
    (
        "sort",
        DATA,
        [
            "{{ l | sort }} {{ l | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ names | sort(true) }}",
            "{{ people | sort(attribute='age') | map(attribute='name') | join(',') }} {{ people | sort(attribute='name', reverse=true) | map(attribute='name') | join }}",
            "{{ people | sort(attribute='age,name') | map(attribute='name') | list }} {{ people | sort(attribute='home.city') | map(attribute='name') | list }}",
            "{{ [[2, 'b'], [1, 'z'], [2, 'a']] | sort }} {{ [[2, 'b'], [1, 'a']] | sort(attribute=1) }} {{ d | sort }} {{ 'hello' | sort | join }} {{ [1.5, 1, true] | sort }}",
            "{{ d | dictsort }} {{ d | dictsort(true) }} {{ d | dictsort(false, 'value') }} {{ d | dictsort(reverse=true) }} {{ d | dictsort(by='value', reverse=true) }}",
            "{{ {2: 'a', 1: 'b'} | dictsort }} {% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}",
            "{{ l | unique | list }} {{ names | unique | list }} {{ names | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }} {{ [1, 1.0, true, '1', none, none] | unique | list }}",
            "{{ l | min }} {{ l | max }} {{ names | min }} {{ names | max }} {{ people | max(attribute='age') | attr('name') }}| {{ [] | max }}| {{ (people | min(attribute='age')).name }} {{ names | max(case_sensitive=true) }}",
            "{{ l | sum }} {{ [] | sum }} {{ people | sum(attribute='age') }} {{ [1.5, 2] | sum }} {{ l | sum(start=10) }} {{ [[1], [2]] | sum(start=[]) }}",
        ],
    ),
    (
        "select",
        DATA,
        [
            "{{ [0, 1, '', 'x', none] | select | list }} {{ [0, 1, none] | reject | list }} {{ l | select('odd') | list }} {{ l | reject('odd') | list }}",
            "{{ l | select('gt', 1) | list }} {{ l | select('>=', 2) | list }} {{ l | select('in', [1, 2]) | list }} {{ [1, 'a', none] | select('string') | list }} {{ l | select('divisibleby', 3) | list }}",
            "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(',') }} {{ messages | rejectattr('role', '==', 'user') | list | length }}",
            "{{ messages | selectattr('tool_calls') | list | length }} {{ messages | selectattr('tool_calls', 'defined') | list | length }} {{ messages | rejectattr('tool_calls', 'defined') | map(attribute='role') | list }}",
            "{{ (messages | selectattr('role', 'eq', 'user') | first).content }} {{ (messages | selectattr('role', 'eq', 'user') | list)[-1].content }} {{ messages | selectattr('role', 'in', ['user', 'system']) | list | length }}",
            "{{ people | selectattr('home.city', 'eq', 'Bern') | map(attribute='name') | list }} {{ [[1, 2], [3, 4]] | selectattr(0, 'gt', 1) | list }} {{ none | select | list }} {{ missing | selectattr('x') | list }}",
            "{% if messages | selectattr('role', 'eq', 'nobody') %}always true{% endif %} {% if messages | selectattr('role', 'eq', 'nobody') | list %}no{% else %}empty{% endif %}",
        ],
    ),
    (
        "map",
        DATA,
        [
            "{{ names | map('upper') | list }} {{ l | map('string') | join('') }} {{ [[1, 2], [3]] | map('length') | list }} {{ [[1, 2], [3]] | map('first') | list }}",
            "{{ people | map(attribute='name') | list }} {{ people | map(attribute='home.city') | list }} {{ people | map(attribute='tags', default='none') | list }} {{ people | map(attribute='x') | list }}",
            "{{ ['a,b', 'c'] | map('replace', ',', ';') | list }} {{ [1, none] | map('default', 5) | list }} {{ [' a '] | map('trim') | list }} {{ [3, 4] | map('tojson') | list }}",
            "{{ [[1, 2], [3, 4]] | map(attribute=0) | list }} {{ [{'a': [5, 6]}] | map(attribute='a.1') | list }} {{ none | map('upper') | list }} {{ [['b', 'a']] | map('sort') | list }} {{ ['a'] | map('indent', width=2, first=true) | list }}",
            "{{ l | map('string') | map('upper') | select | join('-') }} {{ ['x'] | map('upper') | first }}",
            "{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}",
            "{% for x in [1, 2, 3] | map('string') %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% endfor %}",
        ],
    ),
    (
        "groups",
        DATA,
        [
            "{% for city, group in people | groupby('home.city') %}{{ city }}:{{ group | map(attribute='name') | join(',') }};{% endfor %}",
            "{% for g in people | groupby('age') %}{{ g.grouper }}={{ g.list | length }} {{ g[0] }};{% endfor %} {{ [{'a': 1}] | groupby('a') }}",
            "{% for k, g in people | groupby('tags.0', default='-') %}{{ k }}:{{ g | length }};{% endfor %} {{ [{'a': 'X'}, {'a': 'x'}] | groupby('a') | map('first') | list }}",
            "{{ l | batch(3) | list }} {{ l | batch(3, 0) | list }} {{ [] | batch(2) | list }} {{ range(5) | batch(2) | map('list') | list }}",
            "{{ l | slice(3) | list }} {{ l | slice(3, 'x') | list }} {{ range(7) | slice(3) | list }} {{ [1] | slice(3) | list }}",
        ],
    ),
    (
        "dicts",
        DATA,
        [
            "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for v in d.values() %}{{ v }}{% endfor %} {% for k in d.keys() %}{{ k }}{% endfor %}",
            "{% for k, v in d | items %}{{ k }}={{ v }};{% endfor %} {{ missing | items | list }} {{ d | items | list }} {{ d.items() | first }}",
            "{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('a', 1), ['b', 2]]) }} {{ dict() }} {{ dict(d, b=9) }}",
            "{{ d.copy() == d }} {{ d | length }} {{ d.keys() | list | sort }} {{ 'a' in d }} {{ d | dictsort | first }} {{ {'a': 1}.items() | list }}",
            "{{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ (1, 1).count(1) }} {{ [1, 2].copy() }} {{ 'x' in [1, 2].copy() }}",
            "{{ people[0] | attr('name') }}| {{ people[0] | attr('keys') is callable }} {{ 'x' | attr('upper') is callable }}",
        ],
    ),
    (
        "many_keys",
        {"k": {f"key{i}": i for i in range(40)}},
        ["{{ k.key0 }} {{ k.key17 }} {{ k['key39'] }} {{ k.key40 }}| {{ k | length }} {{ k | last }} {{ 'key8' in k }} {{ dict(k, key5='x').key5 }} {{ dict(k, key5='x') | list | length }}"],
    ),
    (
        "json",
        DATA,
        [
            "{{ tree | tojson }}",
            "{{ tree | tojson(indent=2) }}",
            "{{ tree | tojson(indent=4) }}",
            "{{ tree | tojson(indent=0) }}",
            "{{ tree | tojson(indent='\\t') }}",
            "{{ tree | tojson(ensure_ascii=true) }} {{ tree | tojson(true) }}",
            "{{ d | tojson(separators=(',', ':')) }} {{ d | tojson(separators=(',', ':'), indent=1) }} {{ d | tojson(sort_keys=true) }}",
            "{{ 'x' | tojson }} {{ 5 | tojson }} {{ 1.0 | tojson }} {{ none | tojson }} {{ true | tojson }} {{ [] | tojson }} {{ {} | tojson }} {{ [[]] | tojson(indent=2) }}",
            "{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ (1, 2) | tojson }} {{ 1e400 | tojson }} {{ -1e400 }} {{ 1e-400 }} {{ 1e100 | tojson }} {{ big | tojson }}",
            "{{ '</script>&\\'' | tojson }} {{ '\\x7f\\x00' | tojson }} {{ people | map(attribute='name') | list | tojson }} {{ (1e308 * 10) | tojson }}",
            "{{ [1e308 * 10, -1e308 * 10] | tojson }} {{ d | tojson | length }} {{ {'a': {'b': 1}} | tojson(indent=none) }} {{ 0.1 | tojson }} {{ 1e16 | tojson }}",
        ],
    ),
    (
        "numbers",
        DATA,
        [
            "{{ '42' | int }} {{ ' 42 ' | int }} {{ '42.9' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ true | int }} {{ none | int }} {{ [] | int(-1) }} {{ '' | int }}",
            "{{ '0x1f' | int(base=16) }} {{ '1f' | int(0, 16) }} {{ '101' | int(base=2) }} {{ '0b11' | int(base=2) }} {{ '1_000' | int }} {{ '-5' | int }} {{ '+5' | int }} {{ '1e3' | int }} {{ '0o17' | int(base=8) }} {{ '_1' | int }}",
            "{{ '1.5' | float }} {{ '1e3' | float }} {{ 'x' | float }} {{ 'x' | float(2.5) }} {{ 5 | float }} {{ none | float }} {{ ' 2 ' | float }} {{ 'inf' | float }} {{ '-Infinity' | float }} {{ '1_0.5' | float }} {{ '.5' | float }} {{ '5.' | float }}",
            "{{ -5 | abs }} {{ (-5) | abs }} {{ -2.5 | abs }} {{ true | abs }} {{ 5 | abs }}",
            "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 42.55 | round(1, 'ceil') }} {{ 5 | round }} {{ 5 | round(2) }} {{ 1234.5 | round(-2) }} {{ -2.5 | round }} {{ 2.5 | round | int }} {{ 7 | round(0, 'ceil') }} {{ 1e300 | round(2) }}",
            "{{ missing | default('d') }} {{ none | default('d') }} {{ '' | default('d', true) }} {{ '' | default('d') }}| {{ 0 | d('x', boolean=true) }} {{ missing | default }}| {{ d.x | default(5) }} {{ missing | default(default_value=1) }}",
        ],
    ),
]
