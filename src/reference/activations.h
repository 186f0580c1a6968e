// Activations passed between operations, in float32. T: rows of the step; model/config.h defines the other
// letters.
#pragma once

#include "model/config.h"
#include "reference/array.h"

namespace nibble::reference {

struct Activations {
  Activations(const Config& c, ptrdiff_t num_rows)
      : x({num_rows, c.hidden}),
        q({num_rows, c.num_heads, c.head_dim}),
        attended({num_rows, ptrdiff_t{1} * c.num_heads * c.head_dim}),
        normed({num_rows, c.hidden}),
        chosen({num_rows, c.experts_per_token}),
        chosen_weights({num_rows, c.experts_per_token}) {}

  Array<float, 2> x;               // [T, H]: the residual stream
  Array<float, 3> q;               // [T, Nq, D]: rotated queries
  Array<float, 2> attended;        // [T, Nq D]: output of attention
  Array<float, 2> normed;          // [T, H]: x after the norm
  Array<int, 2> chosen;            // [T, K]: indices of the chosen experts
  Array<float, 2> chosen_weights;  // [T, K]: weights of these experts in the sum
};

}  // namespace nibble::reference
