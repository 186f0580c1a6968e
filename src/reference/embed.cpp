#include "reference/embed.h"

#include "reference/weight_row.h"

namespace nibble::reference {

void embed(const EmbedArgs& args) {
  for (size_t t = 0; t < args.rows.size(); ++t) decode_row(args.embedding, args.rows[t].token, args.x.row(t));
}

}  // namespace nibble::reference
