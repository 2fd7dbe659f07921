"""Lists the mutants of a source file. Each changes one operator, constant, index, condition or initializer."""
import hashlib
import re
from dataclasses import dataclass

# Comments, strings, character literals and preprocessor lines are not changed.
_TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""",
                   re.S)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
_DECLARATION = re.compile(r"\s*(using|template|namespace|static_assert|friend|class|struct|enum|extern)\b"
                          r"|.*\boperator\b")
_ARRAY = re.compile(r"\s*(?:(?:static|const|constexpr|thread_local|alignas\(\w+\))\s+)*[\w:<>, ]+[\w>]\s+\w+"
                    r"(?:\[[^\]]*\])+[ ;={]")

_LOOP = re.compile(r"\s*for \([^;]*;[^;]*;[^;{)]*$")

# clang-format puts a space on each side of a binary operator, but not on each side of a template bracket, pointer * or
# reference &.
_OPERATORS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
              "+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&&": "||", "||": "&&",
              "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "<<": ">>", ">>": "<<",
              "^": "|", "&": "|", "|": "&"}
_LONGEST_FIRST = sorted(_OPERATORS, key=len, reverse=True)
_BINARY = re.compile(r"(?<= )(" + "|".join(map(re.escape, _LONGEST_FIRST)) + r")(?=[ \n])")
_SIGN = re.compile(r"(?:(?<=[(\[{])|(?<=[,=?:] )|(?<=return ))-(?=[\w(.])")
_NOT = re.compile(r"(?<![\w)\]])!(?=[\w(])")
_INTEGER = re.compile(r"(?<![\w.'])(?<!\de[+-])(0x[0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.'])")
_REAL = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)f?(?![\w.])")
_INDEX = re.compile(r"(?<=[\w)\]])\[([A-Za-z_]\w*)\]")
_WORDS = {"true": "false", "false": "true", "std::min": "std::max", "std::max": "std::min"}
_WORD = re.compile(r"(?<![\w:])(true|false|std::min|std::max)\b(?!\s*<)")
_INITIALIZER = re.compile(r"(?<=[{ ])\.\w+ = [\w.:]+(?:\([\w.:]*\))?(?:, |,(?=\n)|(?=\}))")


def code_of(text):
    """Returns the text with a space in place of each character that is not code."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group())
    return _PREPROCESSOR.sub(blank, _TEXT.sub(blank, text))


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int  # line number, starting at 1
    begin: int  # position of `old` in the file
    old: str
    new: str
    before: str  # the line before the change
    after: str  # the line after the change
    key: str  # depends on the text of the line, not on its number

    def apply(self, text):
        return text[:self.begin] + self.new + text[self.begin + len(self.old):]

    def diff(self):
        return f"-{self.before.strip()}\n+{self.after.strip()}"


def _changes(code):
    """Yields (begin, old, new) for every change, in no particular order."""
    for m in _BINARY.finditer(code):
        yield m.start(), m[0], _OPERATORS[m[0]]
    for m in _SIGN.finditer(code):
        yield m.start(), "-", ""
    for m in _NOT.finditer(code):
        yield m.start(), "!", ""
    for m in _INTEGER.finditer(code):
        yield m.start(), m[0], (f"({m[0]} + 1)" if m[1].startswith("0x") else str(int(m[1]) + 1) + m[2])
    for m in _REAL.finditer(code):
        zero = float(m[0].rstrip("f")) == 0
        yield m.start(), m[0], f"({m[0]} + 1)" if zero else f"(2 * {m[0]})"
    for m in _INDEX.finditer(code):
        yield m.start(), m[0], "[0]"
    for m in _WORD.finditer(code):
        yield m.start(), m[0], _WORDS[m[0]]
    for m in _INITIALIZER.finditer(code):
        yield m.start(), m[0], ""
    for m in re.finditer(r"(?<!\w)if (?:constexpr )?\(", code):
        end = _closing(code, m.end() - 1)
        if end and "\n" not in code[m.end():end] and ";" not in code[m.end():end]:
            condition = code[m.end():end]
            yield m.end(), condition, f"!({condition})"


def _closing(code, opening):
    depth = 0
    for i in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i
    return None


def mutants_of(path, text):
    code = code_of(text)
    found, seen = [], {}
    for begin, old, new in sorted(set(_changes(code))):
        start = code.rfind("\n", 0, begin) + 1
        end = code.find("\n", begin)
        line, column = code[start:end], begin - start
        array = _ARRAY.match(line)
        if old == "+=" and _LOOP.match(line[:column]):
            continue  # a loop that runs backwards would only reach the time limit
        if _DECLARATION.match(line) or (array and column < array.end()):
            continue
        if text[begin:begin + len(old)] != old:
            continue  # the condition contains a string, which is blank in `code`
        before = text[start:end]
        after = before[:column] + new + before[column + len(old):]
        name = f"{path}|{before.strip()}|{after.strip()}"
        seen[name] = seen.get(name, 0) + 1
        key = hashlib.sha1(f"{name}|{seen[name]}".encode()).hexdigest()[:12]
        found.append(Mutant(path, code.count("\n", 0, begin) + 1, begin, old, new, before, after, key))
    return found


def chosen(mutants, seed, count):
    """Returns the first `count` mutants in an order set by the seed, which does not depend on other code."""
    return sorted(mutants, key=lambda m: hashlib.sha1(f"{seed}|{m.key}".encode()).digest())[:count]
