"""What §3, §4 and appendix C of the paper claim, checked by numbers."""
