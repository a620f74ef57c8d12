"""Google's SentencePiece with a GGUF file's vocabulary: an oracle that shares no code with llama.cpp.

SentencePiece has no special tokens in texts; those cases are for llama.cpp alone."""

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2

import gguf_vocabulary

_TYPES = {
    gguf_vocabulary.NORMAL: model_pb2.ModelProto.SentencePiece.NORMAL,
    gguf_vocabulary.UNKNOWN: model_pb2.ModelProto.SentencePiece.UNKNOWN,
    gguf_vocabulary.CONTROL: model_pb2.ModelProto.SentencePiece.CONTROL,
    gguf_vocabulary.USER_DEFINED: model_pb2.ModelProto.SentencePiece.USER_DEFINED,
    gguf_vocabulary.UNUSED: model_pb2.ModelProto.SentencePiece.UNUSED,
    gguf_vocabulary.BYTE: model_pb2.ModelProto.SentencePiece.BYTE,
}


class SentencePieceOracle:
    name = "sentencepiece"

    def __init__(self, model):
        vocabulary = gguf_vocabulary.Vocabulary(model)
        proto = model_pb2.ModelProto()
        for token, score, kind in zip(vocabulary.tokens, vocabulary.scores, vocabulary.types):
            # Conversions write the user-defined "▁" as spaces, mark the unknown token as control, and padding
            # as unknown; SentencePiece wants exactly one unknown token.
            if kind == gguf_vocabulary.USER_DEFINED:
                token = token.replace(" ", "▁")
            elif token == vocabulary.tokens[vocabulary.unknown]:
                kind = gguf_vocabulary.UNKNOWN
            elif kind == gguf_vocabulary.UNKNOWN:
                kind = gguf_vocabulary.CONTROL
            proto.pieces.add(piece=token, score=score, type=_TYPES[kind])
        proto.trainer_spec.model_type = model_pb2.TrainerSpec.BPE
        proto.trainer_spec.byte_fallback = gguf_vocabulary.BYTE in vocabulary.types
        proto.trainer_spec.vocab_size = len(vocabulary.tokens)
        proto.trainer_spec.unk_piece = vocabulary.tokens[vocabulary.unknown]
        proto.trainer_spec.unk_id = vocabulary.unknown
        for i in vocabulary.ids_of_type(gguf_vocabulary.CONTROL):
            if i == vocabulary.bos:
                proto.trainer_spec.bos_piece, proto.trainer_spec.bos_id = vocabulary.tokens[i], i
        proto.normalizer_spec.name = "identity"
        proto.normalizer_spec.add_dummy_prefix = bool(vocabulary.adds_space_prefix)
        proto.normalizer_spec.remove_extra_whitespaces = False
        proto.normalizer_spec.escape_whitespaces = True
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(proto.SerializeToString())

    def encode(self, text, special):
        assert not special
        return self._processor.EncodeAsIds(text)
