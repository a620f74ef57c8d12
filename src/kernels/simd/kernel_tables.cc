#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/kernel_tables.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/kernel_tables.h"
#include "kernels/simd/kernels-inl.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

constexpr KernelSet kTable = {
    .isa = IsaOfTarget(),
    .matmul = Matmul,
    .encode_activations = EncodeActivations,
    .matmul_codes = MatmulCodes,
    .rms_norm = RmsNorm,
    .layer_norm = LayerNorm,
    .rope_interleaved = RopeInterleaved,
    .rope_half_split = RopeHalfSplit,
    .silu_mul = SiluMul,
    .gelu_tanh = GeluTanh,
    .gelu_erf = GeluErf,
    .silu_clamped = SiluClamped,
    .softcap = Softcap,
    .add = Add,
    .scale = Scale,
    .max_of = MaxOf,
    .softmax_terms = SoftmaxTerms,
    .hadamard = Hadamard,
    .store_kv = StoreKv,
    .encode = Encode,
    .prepare = Prepare,
    .attend = Attend,
    .merge = Merge,
    .finish = Finish,
};

}  // namespace

const KernelSet* Table() { return &kTable; }

}  // namespace ashlar::kernels::HWY_NAMESPACE
#endif  // ASHLAR_SIMD_TARGET

#if HWY_ONCE
namespace ashlar::kernels {

std::vector<const KernelSet*> BuiltSimdTables() {
  return {
#if HWY_TARGETS & HWY_AVX2
      N_AVX2::Table(),
#endif
#if HWY_TARGETS & HWY_AVX3
      N_AVX3::Table(),
#endif
#if HWY_TARGETS & HWY_NEON
      N_NEON::Table(),
#endif
  };
}

}  // namespace ashlar::kernels
#endif  // HWY_ONCE
