"""Channel values ⇄ JSON, equal and typed; each message and each large value once. Touches no files or clocks.

Writing: `freeze` takes live values in one look and makes `parts` of them, beside `copies` to compare the next ones
with; a `page` gives numbers to what is new and makes text of it, and its `book` knows them all. What JSON does not
have is a tag of `types`, a message is as `messages` has it, and what nobody knows goes through the serde (`seal`).

Reading: `thaw` makes values of text. `adopt` makes parts of what was read, so that it is known when it comes back.
"""
