(* Rounding commutes with whole numbers, so rounded estimates stay counts plus noise. *)
From Coq Require Import ZArith List Lia Reals Lra.
From Counton Require Import Definitions Vectors.
Import ListNotations.
Open Scope Z_scope.

Lemma nearest_shift top bottom k : 0 < bottom -> nearest (top + k * bottom) bottom = nearest top bottom + k.
Proof.
  intros H. unfold nearest.
  replace (2 * (top + k * bottom) + bottom) with (2 * top + bottom + k * (2 * bottom)) by ring.
  apply Z.div_add. lia.
Qed.

Lemma floor_shift r k : floor (r + IZR k) = floor r + k.
Proof.
  unfold floor. assert (up (r + IZR k) = up r + k); [|lia].
  symmetry. destruct (archimed r) as [H1 H2]. apply tech_up; rewrite plus_IZR; lra.
Qed.

Lemma floor_is r : (IZR (floor r) <= r < IZR (floor r) + 1)%R.
Proof. unfold floor. destruct (archimed r). rewrite minus_IZR. lra. Qed.

Section Estimates.
  Context {Node Inputs : Type}.
  Variable C : Inputs -> Node -> Z.

  Lemma estimates_measured n unit (count : Inputs -> Z) : (forall x, C x n = unit * count x) ->
    estimates C (fun z => z n) unit count.
  Proof. intros H z x. now rewrite H. Qed.

  Lemma estimates_added f g unit (count count' : Inputs -> Z) :
    estimates C f unit count -> estimates C g unit count' ->
    estimates C (fun z => f z + g z) unit (fun x => count x + count' x).
  Proof. intros H H' z x. rewrite H, H'. lia. Qed.

  Lemma estimates_compared f g unit unit' weight (count : Inputs -> Z) (share : Z -> Z) :
    estimates C f unit count -> estimates C g unit' count -> unit' = unit * weight ->
    estimates C (fun z => f z + share (g z - weight * f z)) unit count.
  Proof.
    intros H H' -> z x. rewrite H, H'.
    replace (g z + unit * weight * count x - weight * (f z + unit * count x)) with
      (g z - weight * f z) by ring. ring.
  Qed.

  Lemma estimates_divided f unit bottom factor (count : Inputs -> Z) : 0 < bottom ->
    estimates C f unit count -> forall unit', factor * unit = unit' * bottom ->
    estimates C (fun z => nearest (factor * f z) bottom) unit' count.
  Proof.
    intros Hb H unit' E z x. rewrite H.
    replace (factor * (f z + unit * count x)) with (factor * f z + unit' * count x * bottom) by
      (transitivity (factor * f z + factor * unit * count x); [rewrite E|]; ring).
    now rewrite nearest_shift.
  Qed.

  Lemma estimates_floored (f : (Node -> Z) -> R) unit (count : Inputs -> Z) :
    (forall z x, f (fun n => z n + C x n)%Z = f z + IZR (unit * count x))%R ->
    estimates C (fun z => floor (f z)) unit count.
  Proof. intros H z x. rewrite H. apply floor_shift. Qed.

  Fixpoint tree_estimates unit (t : tree Node Inputs) {struct t} : measured C unit t ->
    forall z x, from_below (fun n => z n + C x n) t = from_below z t + unit * held x t.
  Proof.
    destruct t as [said count | own weight share children].
    - intros H z x. apply H.
    - intros [H Hs] z x.
      assert (sum (map (from_below (fun n => z n + C x n)) children) =
        sum (map (from_below z) children) + unit * sum (map (held x) children)) as E.
      { clear H. induction children as [|c children IH]; [simpl; lia|].
        destruct Hs as [Hc Hs]. specialize (IH Hs). pose proof (tree_estimates unit c Hc z x) as Ec.
        unfold sum in *. cbn [map fold_right]. rewrite Ec, IH. ring. }
      cbn [from_below held]. cbv zeta. rewrite E, H.
      match goal with |- _ + share ?a = _ + share ?b + _ => replace a with b by ring end. ring.
  Qed.

  Lemma estimates_from_below unit (t : tree Node Inputs) : measured C unit t ->
    estimates C (fun z => from_below z t) unit (fun x => held x t).
  Proof. intros H z x. now apply tree_estimates. Qed.

  Lemma finals_shift unit z x (lack : Z) children (pass : nat -> Z -> Z) : forall first,
    fold_right and True (map (agreed C unit) children) ->
    map (fun jc => said (fun n => z n + C x n) (snd jc) + pass (fst jc) lack)
      (combine (seq first (length children)) children) =
    map (fun p => fst p + unit * snd p)
      (combine (map (fun jc => said z (snd jc) + pass (fst jc) lack)
        (combine (seq first (length children)) children)) (map (counted x) children)).
  Proof.
    induction children as [|c children IH]; intros first H; simpl; auto.
    destruct H as [Hc H]. f_equal; [|now apply IH].
    destruct c as [s count together p ch]. destruct Hc as [Hc _]. simpl. rewrite Hc. ring.
  Qed.

  Lemma sum_firstn_shift unit (u v : list Z) i : length u = length v ->
    sum (firstn i (map (fun p => fst p + unit * snd p) (combine u v))) =
    sum (firstn i u) + unit * sum (firstn i v).
  Proof.
    revert u v. induction i as [|i IH]; intros [|a u] [|b v] H; simpl in H; try discriminate;
      unfold sum in *; cbn [firstn combine map fold_right fst snd]; try lia.
    injection H as H. specialize (IH u v H). rewrite IH. ring.
  Qed.

  Fixpoint family_estimates unit (path : list nat) (t : family Node Inputs) {struct path} :
    agreed C unit t -> forall z x final,
    from_above (fun n => z n + C x n) path (final + unit * counted x t) t =
    from_above z path final t + unit * up_to x path t.
  Proof.
    destruct t as [s count together pass children]. destruct path as [|i rest].
    - intros _ z x final. reflexivity.
    - intros [_ [Ht Hs]] z x final. cbn [from_above up_to counted]. cbv zeta. rewrite Ht.
      replace (final + unit * count x - (together z + unit * count x)) with (final - together z) by ring.
      set (lack := final - together z).
      rewrite (finals_shift unit z x lack children pass 0 Hs).
      set (finals := map (fun jc => said z (snd jc) + pass (fst jc) lack)
        (combine (seq 0 (length children)) children)).
      assert (length finals = length (map (counted x) children)) as L.
      { unfold finals. rewrite !map_length, combine_length, seq_length. lia. }
      destruct (nth_error children i) as [child|] eqn:E; [|ring].
      assert (agreed C unit child) as Hc.
      { apply nth_error_In in E. clear - Hs E. induction children as [|c children IH]; [contradiction|].
        destruct Hs as [Hc Hs]. destruct E as [<- | E]; auto. }
      rewrite sum_firstn_shift by auto. rewrite firstn_map.
      assert (i < length children)%nat as Hi by (apply nth_error_Some; congruence).
      rewrite (nth_indep _ 0 (fst (0, 0) + unit * snd (0, 0))) by
        (rewrite map_length, combine_length, <- L; unfold finals;
         rewrite map_length, combine_length, seq_length; lia).
      rewrite (map_nth (fun p => fst p + unit * snd p)), combine_nth by auto. cbn [fst snd].
      replace (nth i (map (counted x) children) 0) with (counted x child).
      + rewrite (family_estimates unit rest child Hc). ring.
      + symmetry. apply nth_error_nth. now apply map_nth_error.
  Qed.

  Lemma estimates_from_above unit (top : family Node Inputs) path : agreed C unit top ->
    estimates C (fun z => from_above z path (said z top) top) unit (fun x => up_to x path top).
  Proof.
    intros H z x. destruct top as [s count together pass children] eqn:E.
    assert (said (fun n => z n + C x n) top = said z top + unit * counted x top) as Hs.
    { rewrite E. destruct H as [H _]. apply H. }
    rewrite <- E in *. rewrite Hs. now apply family_estimates.
  Qed.
End Estimates.
