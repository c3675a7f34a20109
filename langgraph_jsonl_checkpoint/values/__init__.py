"""Channel values ⇄ JSON, equal and typed; each message and each large value once. Touches no files or clocks.

Writing: `freeze` makes `parts` of live values, which are to be written, and `copies`, which the next values are
compared with. A `page` gives numbers to the parts that are new and makes text of them; the `book` knows what each
number stands for. `types` has the tags for what JSON does not have and `messages` the fields of a message; what
neither knows, the saver's serde stores (`seal`).

Reading: `thaw` makes values of text. `adopt` finds the parts that a value was written from when it was read, so that
it is not written again when a run puts it back.
"""
