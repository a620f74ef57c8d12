// The exponential's constants, shared by the reference and the SIMD code so that both make the same
// bits.
//
//   n = round(x / ln 2)         by adding and subtracting 1.5 * 2^23
//   r = x - n ln 2              in two parts (Cody and Waite), |r| <= 0.35
//   e^x = 2^n (1 + r + r^2 P(r))
//
// P is the weighted minimax polynomial of degree 4 for (e^r - 1 - r) / r^2 on |r| <= 0.35, rounded
// to f32; its relative error in e^r is 0.06 * 2^-24.
#pragma once

namespace ashlar::kernels {

inline constexpr float kExpLowest = -87.0f;  // below: 0
inline constexpr float kExpHighest = 88.0f;  // above: infinity
inline constexpr float kExpLog2E = 0x1.715476p+0f;
inline constexpr float kExpRound = 0x1.8p+23f;
inline constexpr float kExpLn2High = 0x1.62e43p-1f;
inline constexpr float kExpLn2Low = -0x1.05c61p-29f;
inline constexpr float kExpP0 = 0x1.fffffcp-2f;
inline constexpr float kExpP1 = 0x1.55548ap-3f;
inline constexpr float kExpP2 = 0x1.555916p-5f;
inline constexpr float kExpP3 = 0x1.123fc6p-7f;
inline constexpr float kExpP4 = 0x1.6a1a72p-10f;

}  // namespace ashlar::kernels
