/** Positions of rows of different heights. Rows that were not measured count with an estimate. */
export class Heights {
  private heights: Float64Array;
  private tops: Float64Array;
  /** Positions up to this row are correct. */
  private sound = 0;

  constructor(
    readonly count: number,
    readonly estimate: number,
  ) {
    this.heights = new Float64Array(count).fill(estimate);
    this.tops = new Float64Array(count + 1);
  }

  /** By how much the row grew. */
  set(row: number, height: number): number {
    const before = this.heights[row] ?? height;
    if (row >= this.count || Math.abs(before - height) < 0.5) return 0;
    this.heights[row] = height;
    this.sound = Math.min(this.sound, row);
    return height - before;
  }

  top(row: number): number {
    for (let n = this.sound; n < row; n++) this.tops[n + 1] = (this.tops[n] ?? 0) + (this.heights[n] ?? 0);
    this.sound = Math.max(this.sound, row);
    return this.tops[row] ?? 0;
  }

  get total(): number {
    return this.top(this.count);
  }

  /** The row at a position; the last row for positions after it. */
  at(y: number): number {
    this.top(this.count);
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.tops[middle] ?? 0) <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  /** Rows to draw: the visible ones and some before and after, so that fast scrolling shows no gap. */
  range(y: number, height: number, beyond: number): [number, number] {
    if (!this.count) return [0, 0];
    return [Math.max(0, this.at(y) - beyond), Math.min(this.count, this.at(y + height) + 1 + beyond)];
  }
}
