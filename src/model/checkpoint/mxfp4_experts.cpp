#include "model/checkpoint/mxfp4_experts.h"

#include "core/errors/error.h"
#include "formats/mxfp4.h"
#include "model/convert_experts.h"

namespace nibble {
namespace {

Matrix shape_of(const TensorSpec& spec) {
  return {static_cast<int>(spec.shape[1]), static_cast<int>(spec.shape[2] * kMxfp4BlockSize), {}};
}
int num_experts(const TensorSpec& spec) { return static_cast<int>(spec.shape[0]); }

}  // namespace

void Mxfp4Experts::check(const TensorSpec& spec, const StoredExperts& stored) {
  if (rounding_ == ExpertRounding::kToMxfp4 || spec.kind == TensorKind::kScales) return;
  if (!is_exactly_mxfp4(stored, shape_of(spec), num_experts(spec), pool_))
    throw InputError(
        "{}: the experts are {} and not exactly MXFP4, the only type that nibble writes: round them "
        "with --experts mxfp4",
        source_, type_name(stored));
}

StoredTensor Mxfp4Experts::read(const TensorSpec& spec, const StoredExperts& stored, Buffer& room) {
  if (room.bytes() < spec.num_bytes) room = Buffer(spec.num_bytes);
  auto* to = room.as<uint8_t>();
  to_mxfp4(stored, shape_of(spec), num_experts(spec),
           spec.kind == TensorKind::kCodes ? Mxfp4Output{.codes = to} : Mxfp4Output{.scales = to}, pool_);
  return {room.data(), DType::kU8};
}

}  // namespace nibble
