// Lines of inline code break between words: not after the hyphens of an option or of a date.
"use strict";

/** Longest word that is kept on one line. */
const LONGEST_WORD = 30;

for (const code of document.querySelectorAll(".md-content :not(pre) > code")) {
  if (code.childElementCount > 0 || code.closest(".long-names")) continue;
  const parts = code.textContent.split(/(\s+)/);
  code.replaceChildren(
    ...parts.map((part) => {
      if (!part.includes("-") || part.length > LONGEST_WORD) return part;
      const word = document.createElement("span");
      word.className = "code-word";
      word.textContent = part;
      return word;
    }),
  );
}
