// The definition of every kernel, in plain C++ one element at a time: what the SIMD tables must
// equal bit for bit. Also what runs on a processor without fused multiply-add (slowly: std::fma is
// then software).
#pragma once

#include "kernels/kernel_set.h"

namespace ashlar::kernels::reference {

void Matmul(const MatmulArgs& args);
void EncodeActivations(const EncodeActivationsArgs& args);
void MatmulCodes(const MatmulCodesArgs& args);

void RmsNorm(const float* x, const float* weight, float eps, std::size_t n, float* y);
void LayerNorm(const float* x, const float* weight, const float* bias, float eps, std::size_t n,
               float* y);
void RopeInterleaved(float* x, const float* cosine, const float* sine, std::size_t pairs);
void RopeHalfSplit(float* x, const float* cosine, const float* sine, std::size_t pairs);
void SiluMul(const float* gate, const float* up, std::size_t n, float* out);
void GeluTanh(const float* x, const float* up, std::size_t n, float* out);
void GeluErf(const float* x, const float* up, std::size_t n, float* out);
void SiluClamped(const float* x, const float* up, std::size_t n, float* out);
void Softcap(float* x, float cap, std::size_t n);
void Add(float* x, const float* y, std::size_t n);
void Scale(const float* x, float factor, std::size_t n, float* y);
float MaxOf(const float* x, std::size_t n);
double SoftmaxTerms(const float* x, float max, float factor, std::size_t n, float* out);

void Hadamard(float* x, std::size_t n);

bool StoreKv(const StoreKvArgs& args);
void Encode(const EncodeArgs& args);
void Prepare(const PrepareArgs& args);
void Attend(const AttendArgs& args);
void Merge(const MergeArgs& args);
void Finish(const float* acc, const float* sum, std::size_t rows, std::size_t head_dim, float* out,
            std::size_t out_stride);

const KernelSet& Kernels();

}  // namespace ashlar::kernels::reference
