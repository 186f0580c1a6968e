// Types for `tsc`: of the libraries, and of functions of browsers that Debian's TypeScript does not know.
declare var katex: any;
declare var hljs: any;
declare var trustedTypes: any;

interface Array<T> {
  findLast(test: (value: T) => unknown): T | undefined;
  findLastIndex(test: (value: T) => unknown): number;
}
