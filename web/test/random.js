// Numbers that a seed repeats (SplitMix64).

const MASK = (1n << 64n) - 1n;

export class Random {
  constructor(seed) {
    this.state = BigInt(seed);
  }

  next() {
    this.state = (this.state + 0x9e3779b97f4a7c15n) & MASK;
    let of = this.state;
    of = ((of ^ (of >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    of = ((of ^ (of >> 27n)) * 0x94d049bb133111ebn) & MASK;
    return of ^ (of >> 31n);
  }

  below(most) {
    return Number(this.next() % BigInt(most));
  }
}
