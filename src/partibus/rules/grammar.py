"""The grammar of filters and actions, and the words of its tokens.

Owns the LALR grammar (section 16.1 of the semantics) in lark's notation. Keywords are names until
the lexer's callback distinguishes them, so that they may be written in any case (SQL-3) and
`android` does not begin with AND. Called by `rules.parser` only.
"""

from typing import Final

GRAMMAR: Final = r"""
filter_text: disjunction
action_text: _statement (_separator? _statement)* ";"?
_separator: ";" | ","
_statement: set_statement | remove_statement
set_statement: SET property_name "=" sum
remove_statement: REMOVE property_name

?disjunction: conjunction (_OR conjunction)*
?conjunction: negation (_AND negation)*
?negation: test
         | NOT negation                  -> negate
?test: sum
     | sum "=" sum                       -> equal
     | sum COMPARISON sum                -> compare
     | sum _IN _list                     -> is_in
     | sum NOT _IN _list                 -> not_in
     | sum _LIKE sum (_ESCAPE sum)?      -> like
     | sum NOT _LIKE sum (_ESCAPE sum)?  -> not_like
     | sum _IS NULL                      -> is_null
     | sum _IS NOT NULL                  -> is_not_null
_list: "(" sum ("," sum)* ")"
?sum: product
    | product (SIGN product)+            -> arithmetic
?product: factor
        | factor (FACTOR factor)+        -> arithmetic
?factor: atom
       | SIGN factor                     -> sign
?atom: "(" disjunction ")"
     | INTEGER                           -> integer
     | DECIMAL                           -> decimal
     | TEXT                              -> text
     | TRUE                              -> true
     | FALSE                             -> false
     | NULL                              -> null
     | PARAMETER                         -> parameter
     | EXISTS "(" property_name ")"      -> exists
     | NAME "(" (sum ("," sum)*)? ")"    -> call
     | property_name
property_name: _part | NAME "." _part
_part: NAME | SET | REMOVE | BRACKETED | QUOTED

NAME: /[^\W\d_][^\W]*/
INTEGER: /[0-9]+/
DECIMAL.2: /(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
TEXT: /'(?:[^']|'')*'/
BRACKETED: /\[(?:[^\]]|\]\])*\]/
QUOTED: /"(?:[^"]|"")*"/
PARAMETER: /@[^\W\d_][^\W]*/
COMPARISON: /<>|!=|>=|<=|<|>/
SIGN: /[+-]/
FACTOR: /[*\/%]/
%declare _OR _AND NOT _IN _LIKE _ESCAPE _IS NULL TRUE FALSE EXISTS SET REMOVE
%ignore /\s+/
"""

KEYWORDS: Final = {
    "or": "_OR",
    "and": "_AND",
    "not": "NOT",
    "in": "_IN",
    "like": "_LIKE",
    "escape": "_ESCAPE",
    "is": "_IS",
    "null": "NULL",
    "true": "TRUE",
    "false": "FALSE",
    "exists": "EXISTS",
    "set": "SET",
    "remove": "REMOVE",
}
RESERVED: Final = frozenset(KEYWORDS) - {"set", "remove"}
"""The words that can be property names only in brackets."""

WORDS: Final = {
    "$END": "the end",
    "_IN": "IN",
    "_LIKE": "LIKE",
    "_ESCAPE": "ESCAPE",
    "_IS": "IS",
    "COMPARISON": "a comparison",
    "EQUAL": "a comparison",
    "SIGN": "+ or -",
    "FACTOR": "*, / or %",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "DOT": "'.'",
    "SEMICOLON": "';'",
}
"""What error texts call a token that would be allowed."""
VALUE_TOKENS: Final = frozenset({"INTEGER", "DECIMAL", "TEXT", "TRUE", "FALSE", "PARAMETER"})
NAME_TOKENS: Final = frozenset({"NAME", "BRACKETED", "QUOTED"})
