// The selection on the page "Choosing epsilon": it shows one margin of error of epsilon-margins.js.
(function () {
  "use strict";
  const form = document.getElementById("epsilon-form");
  const margins = window.countonMargins;
  if (!form || !margins) {
    return;
  }
  const answer = document.getElementById("epsilon-answer");
  function show() {
    const value = function (name) {
      return form.elements[name].value;
    };
    const key = [value("series"), value("windows"), value("bound"), value("epsilon")].join(",");
    const odds = Math.exp(Number(value("epsilon")));
    const factor = odds < 10 ? odds.toFixed(2) : Math.round(odds).toLocaleString("en");
    answer.textContent =
      "Margin of error: ±" + margins[key] + " (95%). The odds that a unit is in the data change by at most a factor of " + factor + ".";
  }
  form.hidden = false;
  form.addEventListener("change", show);
  show();
})();
