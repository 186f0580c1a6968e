// Activations passed between operations: T rows, float32.
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
  Array<float, 3> q;               // [T, Nq, D]
  Array<float, 2> attended;        // [T, Nq D]
  Array<float, 2> normed;          // [T, H]
  Array<int, 2> chosen;            // [T, K]: indices of experts
  Array<float, 2> chosen_weights;  // [T, K]
};

}  // namespace nibble::reference
