#include "reference/unembed.h"

#include <algorithm>
#include <iterator>

#include "reference/array.h"
#include "reference/linear.h"
#include "reference/rms_norm.h"

namespace nibble::reference {

void unembed(const UnembedArgs& args) {
  rms_norm({args.x, args.final_norm, args.rms_eps, args.normed});
  const ptrdiff_t hidden = args.x.shape[1];
  const Array<float, 2> h({std::ssize(args.outputs), hidden});
  for (size_t o = 0; o < args.outputs.size(); ++o)
    std::copy_n(args.normed.row(args.outputs[o]), hidden, h.view().row(o));
  linear({h, args.unembedding, {}, args.logits, args.pool, args.rounding, args.updates});
}

}  // namespace nibble::reference
