#include "backend/cuda/prepare.h"

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/keep_drafts.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/dense/adapters.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/ranks/add_parts.h"
#include "backend/cuda/ranks/sum.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/sample/args.h"

namespace nibble::cuda {

void prepare_kernels() {
  prepare_embed();
  // A kernel gets its place in GPU memory when the program first uses it. So the order of these calls decides
  // where the kernels lie, and thereby which instructions of a step stay in an SM's instruction cache. Of
  // four orders that were measured, this one was the fastest (docs/decisions/0016).
  prepare_route_and_experts_up();
  prepare_experts();
  prepare_attend_rows();
  prepare_linear();
  prepare_unembed_dealt();
  prepare_router();
  prepare_append();
  prepare_attend_tiles();
  prepare_keep_drafts();
  prepare_prompt_dense();
  prepare_prompt_experts();
  prepare_prompt_blocks();
  prepare_rank_experts();
  prepare_rms_norm();
  if (device_caps().has_wgmma) {
    prepare_wgmma_dense();
    prepare_split_dense();
    prepare_image_experts();
    prepare_attend_wgmma();
  }
  prepare_sample();
  prepare_sums();
  prepare_add_parts();
  // The last two calls, so that they do not change the order that was measured.
  prepare_dense_blocks();
  prepare_adapters();
}

}  // namespace nibble::cuda
