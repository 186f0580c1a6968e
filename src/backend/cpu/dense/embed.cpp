#include "backend/cpu/dense/embed.h"

#include "core/errors/check.h"
#include "formats/ggml_blocks.h"

namespace nibble::cpu {

void embed(const EmbedArgs& args) {
  const ptrdiff_t hidden = args.embedding.cols;
  const Blocks* blocks = args.embedding.blocks();
  const auto* elements = blocks ? nullptr : static_cast<const Bf16*>(args.embedding.elements().data);
  for (ptrdiff_t t = 0; t < std::ssize(args.rows); ++t) {
    const TokenId token = args.rows[t].token;
    NIBBLE_CHECK(token >= 0 && token < args.embedding.rows, "token {} of {}", token, args.embedding.rows);
    if (blocks) {
      const auto row = row_of(*blocks, static_cast<size_t>(token), static_cast<size_t>(hidden));
      dequantise(blocks->type, row, {args.x.row(t), static_cast<size_t>(hidden)});
      continue;
    }
    for (ptrdiff_t i = 0; i < hidden; ++i) args.x(t, i) = to_float(elements[token * hidden + i]);
  }
}

}  // namespace nibble::cpu
