// One model in print, whole: whatever changes a line of it is seen here.
#include "plan/report.h"

#include <gtest/gtest.h>

#include <string>

#include "base/byte_size.h"
#include "plan/plan.h"
#include "plan/registry.h"

namespace ashlar::plan {
namespace {

Plan Gemma() {
  PlanOptions options = {.codec = *model::ParseKvCodecSpec("balanced"),
                         .workload = {.context = 20'000, .sequences = 2}};
  options.arena_bytes = kGiB;
  return *MakePlan({.geometry = *Registry::BuiltIn().Find("gemma-3-1b"), .source = "registry"},
                   options);
}

constexpr const char* kGolden = R"golden(gemma-3-1b (gemma3_text)
  26 layers, 4 query heads over 1 kv head of 256 (MQA), context 32,768
  hidden 1,152, feed forward 6,912, vocabulary 262,144 (tied)

KV cache in balanced, blocks of 16 tokens
  group         layers  lanes      K + V      codec  window  bytes a token  bytes a block  blocks  bytes a sequence
  full               4      4  256 + 256  hq8 + hq4    none          1,664         26,624   1,250        33,345,536
  sliding           18     18  256 + 256  hq8 + hq4     512          7,488        119,808      49         6,165,504
  sliding edge       4      4  256 + 256        hq8     512          2,176         34,816      49         1,771,520
  full, tiles, with their scales: 256 x 16 of K in hq8 are 4,352 bytes, 16 x 256 of V in hq4 are 2,304
  full, a block: 4 layers x 1 kv head x (4,352 + 2,304) bytes = 26,624 bytes, 1,664 a token
  full, a sequence: 20,000 tokens / 16, rounded up, are 1,250 blocks x 26,624 bytes, and 1 open in f16 of 65,536 bytes = 33,345,536 bytes
  sliding, tiles, with their scales: 256 x 16 of K in hq8 are 4,352 bytes, 16 x 256 of V in hq4 are 2,304
  sliding, a block: 18 layers x 1 kv head x (4,352 + 2,304) bytes = 119,808 bytes, 7,488 a token
  sliding, a sequence: a window of 512 and a chunk of 256 tokens touch 49 blocks at the most x 119,808 bytes, and 1 open in f16 of 294,912 bytes = 6,165,504 bytes; 32 blocks of them at its end
  sliding edge, tiles, with their scales: 256 x 16 of K in hq8 are 4,352 bytes, 16 x 256 of V in hq8 are 4,352
  sliding edge, a block: 4 layers x 1 kv head x (4,352 + 4,352) bytes = 34,816 bytes, 2,176 a token
  sliding edge, a sequence: a window of 512 and a chunk of 256 tokens touch 49 blocks at the most x 34,816 bytes, and 1 open in f16 of 65,536 bytes = 1,771,520 bytes; 32 blocks of them at its end
  all groups: 11,328 bytes a token, 41,282,560 bytes (39.4 MiB) a sequence
  2 sequences, sharing nothing: 82,565,120 bytes (78.7 MiB)
  --kv-memory 90MiB holds them (90.0 MiB)

Codecs, 2 sequences of 20,000 tokens
  codec                            is  bits a number  bytes a token  open blocks  a sequence       all  sequences that fit  context that fits
  f32                                          32.00         53,248         none     190 MiB   380 MiB                   5             32,768
  exact                   k=f16,v=f16          16.00         26,624         none    95.0 MiB   190 MiB                  10             32,768
  q8                       k=hq8,v=q8           8.50         14,144      416 KiB    50.9 MiB   102 MiB                  19             32,768
  balanced     k=hq8,v=hq4,edge=2@hq8           6.81         11,328      416 KiB    39.4 MiB  78.7 MiB                  25             32,768
  small-model             k=hq6,v=hq6           6.50         10,816      416 KiB    39.0 MiB  78.0 MiB                  26             32,768
  q4           k=hq4,v=hq4,edge=2@hq8           5.12          8,512      416 KiB    27.9 MiB  55.8 MiB                  36             32,768

Weights: 999,885,952 parameters
  F32     3,999,543,808  3.72 GiB     exact
  F16     1,999,771,904  1.86 GiB     exact
  BF16    1,999,771,904  1.86 GiB     exact  counted
  Q8_0    1,062,773,248  1014 MiB  estimate
  FP8     1,302,180,464  1.21 GiB  estimate
  Q6_K    1,005,205,504   959 MiB  estimate
  Q5_1      844,722,688   806 MiB  estimate
  Q5_K_M    844,812,544   806 MiB  estimate
  Q5_K_S    829,866,496   791 MiB  estimate
  Q5_0      801,112,576   764 MiB  estimate
  Q4_1      757,502,464   722 MiB  estimate
  Q4_K_M    799,525,120   762 MiB  estimate
  Q4_K_S    774,459,904   739 MiB  estimate
  Q4_0      713,892,352   681 MiB  estimate

Sequences that fit in --kv-memory 1.00 GiB, by their tokens
  tokens  f32  exact  q8  balanced  small-model   q4
  1,024    24     48  88       108          114  144
  2,048    20     41  74        92           96  124
  4,096    15     31  56        71           73   96
  8,192    10     20  38        48           50   68
  16,384    6     12  23        30           30   42
  32,768    3      7  13        16           17   24
  in balanced: 25 sequences of 20,000 tokens at once; 2 sequences of up to 32,768 tokens, the longest asked about

Rules of thumb, for a sequence that takes 41,282,560 bytes
  query heads instead of kv heads: 2 x 26 layers x 4 query heads x 256 x 2 bytes x 20,000 tokens = 2,129,920,000 bytes, 51.59 times as much
  the hidden size: 2 x 26 layers x 1,152 x 2 bytes x 20,000 tokens = 2,396,160,000 bytes, 58.04 times as much
  heads of hidden / query heads: 2 x 26 layers x 1 kv heads x 1,152 / 4 x 2 bytes x 20,000 tokens = 599,040,000 bytes, 14.51 times as much
  windows ignored: 11,328 bytes a token, all of them kept x 20,000 tokens = 226,560,000 bytes, 5.49 times as much
  2 bytes whatever the codec: 49,790,976 numbers x 2 bytes = 99,581,952 bytes, 2.41 times as much
  the codec's bits without scales and open blocks: 49,790,976 numbers x 6.06 bits / 8 = 37,744,640 bytes, 0.91 times as much
)golden";

TEST(TextReport, IsWhatItWas) { EXPECT_EQ(TextReport(Gemma()), kGolden); }

TEST(HtmlReport, HasTheSameSectionsAndNothingFromOutside) {
  const std::string html = HtmlReport(Gemma());
  for (const char* const part : {"<h1>gemma-3-1b (gemma3_text)</h1>", "<td>sliding edge</td>",
                                 "41,282,560 bytes", "<th>small-model</th>"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  for (const char* const outside : {"src=", "href=", "url(", "<script", "@import"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  // Memory by context, and what fits.
  std::size_t plots = 0;
  for (std::size_t at = html.find("<svg"); at != html.npos; at = html.find("<svg", at + 1)) ++plots;
  EXPECT_EQ(plots, 2u);
}

TEST(HtmlReport, NamesAreNoMarkup) {
  Plan plan = Gemma();
  plan.subject.geometry.name = "<b>&";
  EXPECT_NE(HtmlReport(plan).find("<h1>&lt;b&gt;&amp; (gemma3_text)</h1>"), std::string::npos);
}

}  // namespace
}  // namespace ashlar::plan
