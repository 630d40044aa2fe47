"""DSSM with GLaS (Guo et al., NeurIPS 2019): labels far apart unless they occur together.

The regulariser of appendix D: in each batch, the cosines of the pairs' labels are pulled to
(C Z^-1 + Z^-1 C) / 2, the mean of the two conditional probabilities of one label given the other.
"""

from dataclasses import dataclass

from solar_tf.baselines.dssm import Dssm, DssmSettings
from solar_tf.baselines.interface import setting


@dataclass(frozen=True)
class GlasSettings(DssmSettings):
    glas: float = setting(10.0, "ours", "weight of the regulariser, lambda of appendix D", least=0)


class Glas(Dssm):
    title = "DSSM+GLaS"
    Settings = GlasSettings
    presets = Dssm.presets
