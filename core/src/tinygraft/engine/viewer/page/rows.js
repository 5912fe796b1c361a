// A list of any length: only the rows that are seen are elements.
"use strict";

class Rows {
  // columns: [label, width, className]; fill(row, number) appends a span for each; pick(number) is called with a choice
  constructor(holder, columns, fill, pick) {
    this.fill = fill;
    this.pick = pick;
    this.columns = columns;
    this.height = 24;
    this.count = 0;
    this.chosen = -1;
    const heads = make("div", "heads");
    for (const [label, width, className] of columns) {
      const head = make("span", className || "", label);
      head.style.flex = width;
      heads.append(head);
    }
    this.scroll = make("div", "scroll");
    this.space = make("div");
    this.scroll.append(this.space);
    holder.replaceChildren(heads, this.scroll);
    this.scroll.onscroll = () => this.draw();
  }

  show(count) {
    this.count = count;
    // browsers limit heights: beyond that, a pixel of the bar is several rows
    this.space.style.height = Math.min(count * this.height, 8e6) + "px";
    this.draw();
  }

  get stretch() { return Math.max(1, this.count * this.height / 8e6); }

  draw() {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop * this.stretch / this.height) - 3);
    const seen = Math.ceil(this.scroll.clientHeight / this.height) + 6, rows = [this.space];
    for (let number = first; number < Math.min(this.count, first + seen); number++) {
      const row = make("div", "row" + (number === this.chosen ? " chosen" : ""));
      row.style.top = this.scroll.scrollTop + number * this.height - this.scroll.scrollTop * this.stretch + "px";
      row.dataset.number = number;
      this.fill((text, className) => {
        const cell = make("span", this.columns[row.childElementCount][2] || "");
        cell.style.flex = this.columns[row.childElementCount][1];
        marked(cell, String(text), search.wanted);
        if (className) cell.classList.add(className);
        row.append(cell);
        return cell;
      }, number);
      row.onclick = () => this.choose(number);
      rows.push(row);
    }
    if (!this.count) rows.push(make("div", "empty", search.wanted ? "nothing matches" : "nothing yet"));
    this.scroll.replaceChildren(...rows);
  }

  choose(number, quietly) {
    if (!this.count) return;
    this.chosen = Math.max(0, Math.min(this.count - 1, number));
    const top = this.chosen * this.height / this.stretch, seen = this.scroll.clientHeight - 2 * this.height;
    if (top < this.scroll.scrollTop || top > this.scroll.scrollTop + seen) this.scroll.scrollTop = Math.max(0, top - seen / 2);
    this.draw();
    if (!quietly) this.pick(this.chosen);
  }
}
