#include "backend/cpu/dense/embed.h"

#include "core/check.h"

namespace nibble::cpu {

void embed(const EmbedArgs& args) {
  const ptrdiff_t hidden = args.embedding.cols;
  const auto* elements = static_cast<const Bf16*>(args.embedding.data);
  for (ptrdiff_t t = 0; t < std::ssize(args.rows); ++t) {
    const TokenId token = args.rows[t].token;
    NIBBLE_CHECK(token >= 0 && token < args.embedding.rows, "token {} of {}", token, args.embedding.rows);
    for (ptrdiff_t i = 0; i < hidden; ++i) args.x(t, i) = to_float(elements[token * hidden + i]);
  }
}

}  // namespace nibble::cpu
