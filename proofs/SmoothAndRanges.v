(* The smooth binary mechanism and range trees: B C = A, and how many nodes an item enters. *)
From Coq Require Import ZArith List Bool Lia.
From Counton Require Import Strategies Trees.
Import ListNotations.
Open Scope Z_scope.

(* Words in order. *)
Fixpoint less (a b : list bool) : bool :=
  match a, b with
  | x :: a', y :: b' => if eqb x y then less a' b' else y
  | _, _ => false
  end.
Fixpoint zeros_of (a : list bool) : nat :=
  match a with [] => 0 | x :: a' => (if x then 0 else 1) + zeros_of a' end.

Lemma row_above leaf : forall above w n, In (w, n) (leaf_row above leaf) -> exists more, n = more ++ above.
Proof.
  induction leaf as [|bit leaf IH]; intros above w n H; [contradiction|].
  cbn [leaf_row] in H. apply in_app_iff in H as [H | H].
  - destruct bit; [|contradiction]. destruct H as [E | []]. injection E as _ <-. now exists [].
  - apply IH in H as [more ->]. exists (more ++ [bit]). now rewrite <- app_assoc.
Qed.

Lemma column_above leaf : forall above n, In n (leaf_column above leaf) -> exists more, n = more ++ above.
Proof.
  induction leaf as [|bit leaf IH]; intros above n H; [contradiction|].
  cbn [leaf_column] in H. apply in_app_iff in H as [H | H].
  - destruct (negb bit && _); [|contradiction]. destruct H as [<- | []]. now exists [].
  - apply IH in H as [more ->]. exists (more ++ [bit]). now rewrite <- app_assoc.
Qed.

Lemma apart (x y : bool) (m n above : list bool) : m ++ x :: above = n ++ y :: above -> x = y.
Proof.
  intros E. assert (length m = length n) as L.
  { apply (f_equal (@length bool)) in E. rewrite !app_length in E. simpl in E. lia. }
  revert n L E. induction m as [|a m IH]; intros [|b n] L E; simpl in *; try discriminate.
  - now injection E.
  - injection E as _ E. apply (IH n); auto.
Qed.

Lemma above_longer (x : bool) (m above : list bool) : m ++ x :: above <> above.
Proof.
  intros E. apply (f_equal (@length bool)) in E. rewrite app_length in E. simpl in E. lia.
Qed.

Lemma ones_left a : (zeros_of a < length a)%nat -> existsb id a = true.
Proof.
  induction a as [|x a IH]; simpl; intros H; [lia|]. destruct x; auto. apply IH. lia.
Qed.

Lemma zeros_at_most a : (zeros_of a <= length a)%nat.
Proof. induction a as [|[] a IH]; simpl; lia. Qed.

Lemma leaf_product a : forall above b, length a = length b -> zeros_of a = zeros_of b ->
  read (leaf_row above b) (entry same_bits (leaf_column above a)) = if less a b then 1 else 0.
Proof.
  induction a as [|x a IH]; intros above [|y b] HL HZ; try discriminate; [reflexivity|].
  injection HL as HL. cbn [leaf_row leaf_column less]. rewrite !read_app, !read_entry_app.
  assert (forall r, read (leaf_row (y :: above) r) (entry same_bits
    (if negb x && existsb id a then [above] else [])) = 0) as ->.
  { intros r. apply read_0. intros w n Hr Hc. apply row_above in Hr as [more ->].
    destruct (negb x && _); [|contradiction]. destruct Hc as [E | []].
    symmetry in E. now apply above_longer in E. }
  assert (read (if y then [(1, above)] else []) (entry same_bits (leaf_column (x :: above) a)) = 0) as ->.
  { apply read_0. intros w n Hr Hc. apply column_above in Hc as [more ->].
    destruct y; [|contradiction]. destruct Hr as [E | []]. injection E as _ E.
    symmetry in E. now apply above_longer in E. }
  destruct (eqb x y) eqn:E.
  - apply eqb_prop in E as <-. rewrite IH by (auto; simpl in HZ; destruct x; lia).
    assert (read (if x then [(1, above)] else []) (entry same_bits
      (if negb x && existsb id a then [above] else [])) = 0) as ->; [|lia].
    destruct x; [reflexivity|]. destruct (negb false && _); reflexivity.
  - assert (read (leaf_row (y :: above) b) (entry same_bits (leaf_column (x :: above) a)) = 0) as ->.
    { apply read_0. intros w n Hr Hc. apply row_above in Hr as [m ->].
      apply column_above in Hc as [n E']. apply apart in E'. subst. now rewrite eqb_reflx in E. }
    destruct x, y; try discriminate; simpl in HZ.
    + reflexivity.
    + rewrite ones_left by (pose proof (zeros_at_most b); lia).
      unfold read, entry. cbn [negb andb fold_right fst snd count_occ].
      destruct (same_bits above above); [reflexivity | contradiction].
Qed.

(* Leaves in order. *)
Lemma leaves_shape height : forall zeros a, In a (leaves height zeros) ->
  length a = height /\ zeros_of a = zeros.
Proof.
  induction height as [|height IH]; intros zeros a H.
  - destruct zeros; [|contradiction]. destruct H as [<- | []]. auto.
  - cbn [leaves] in H. apply in_app_iff in H as [H | H].
    + destruct zeros as [|zeros]; [contradiction|].
      apply in_map_iff in H as [b [<- Hb]]. apply IH in Hb as [<- <-]. auto.
    + apply in_map_iff in H as [b [<- Hb]]. apply IH in Hb as [<- <-]. auto.
Qed.

Lemma less_cons x a b : less (x :: a) (x :: b) = less a b.
Proof. simpl. now rewrite eqb_reflx. Qed.

Lemma leaves_in_order height : forall zeros i j, (i < j < length (leaves height zeros))%nat ->
  less (nth i (leaves height zeros) []) (nth j (leaves height zeros) []) = true.
Proof.
  induction height as [|height IH]; intros zeros i j H.
  - destruct zeros; simpl in H; lia.
  - cbn [leaves] in *.
    set (low := match zeros with O => [] | S zeros' => map (cons false) (leaves height zeros') end) in *.
    rewrite app_length, map_length in H.
    assert (forall p i', (i' < length (leaves height p))%nat -> forall b,
      nth i' (map (cons b) (leaves height p)) [] = b :: nth i' (leaves height p) []) as N.
    { intros p i' Hi b. rewrite (nth_indep _ [] (b :: [])) by (now rewrite map_length).
      now rewrite map_nth. }
    destruct (Nat.lt_ge_cases j (length low)) as [Hj | Hj].
    + rewrite !app_nth1 by lia. unfold low in *. destruct zeros as [|zeros]; [simpl in Hj; lia|].
      rewrite map_length in Hj. rewrite !N by lia. rewrite less_cons. apply IH. lia.
    + rewrite (app_nth2 low _ [] Hj). rewrite (N zeros (j - length low)%nat) by lia.
      destruct (Nat.lt_ge_cases i (length low)) as [Hi | Hi].
      * rewrite app_nth1 by lia. unfold low in Hi |- *.
        destruct zeros as [|zeros]; [simpl in Hi; lia|]. rewrite map_length in Hi.
        rewrite (N zeros i) by lia. reflexivity.
      * rewrite (app_nth2 low _ [] Hi), (N zeros (i - length low)%nat) by lia. rewrite less_cons. apply IH. lia.
Qed.

Lemma less_irreflexive a : less a a = false.
Proof. induction a as [|x a IH]; auto. now rewrite less_cons. Qed.

Lemma less_asymmetric a : forall b, less a b = true -> less b a = false.
Proof.
  induction a as [|x a IH]; intros [|y b]; simpl; auto. intros H.
  destruct x, y; simpl in *; auto; discriminate.
Qed.

Lemma smooth_product height zeros item step :
  (1 <= item)%nat -> (item - 1 < length (leaves height zeros))%nat ->
  (step < length (leaves height zeros))%nat ->
  read (smooth_row height zeros step) (entry same_bits (smooth_column height zeros item)) =
  if (item <=? step)%nat then 1 else 0.
Proof.
  intros Hi HI HS. unfold smooth_row, smooth_column.
  destruct (leaves_shape height zeros _ (nth_In _ [] HI)) as [L1 Z1].
  destruct (leaves_shape height zeros _ (nth_In _ [] HS)) as [L2 Z2].
  rewrite leaf_product by congruence.
  destruct (Nat.leb_spec item step).
  - rewrite leaves_in_order by lia. reflexivity.
  - destruct (Nat.eq_dec step (item - 1)) as [-> |].
    + now rewrite less_irreflexive.
    + rewrite less_asymmetric; auto. apply leaves_in_order. lia.
Qed.

Lemma leaf_column_length a : forall above, (length (leaf_column above a) <= zeros_of a)%nat.
Proof.
  induction a as [|x a IH]; intros above; [simpl; lia|]. cbn [leaf_column zeros_of].
  rewrite app_length. specialize (IH (x :: above)).
  destruct x; cbn [negb andb length]; [lia|]. destruct (existsb id a); cbn [length]; lia.
Qed.

Lemma first_leaf height : forall zeros, (zeros <= height)%nat ->
  exists rest, leaves height zeros = (repeat false zeros ++ repeat true (height - zeros)) :: rest.
Proof.
  induction height as [|height IH]; intros zeros H.
  - assert (zeros = 0)%nat as -> by lia. now exists [].
  - cbn [leaves]. destruct zeros as [|zeros].
    + destruct (IH 0%nat ltac:(lia)) as [rest E]. rewrite Nat.sub_0_r in *. rewrite E.
      exists (map (cons true) rest). reflexivity.
    + destruct (IH zeros ltac:(lia)) as [rest E]. rewrite E. cbn [map app].
      eexists. reflexivity.
Qed.

Lemma first_leaf_column zeros ones : forall above, (0 < ones)%nat ->
  length (leaf_column above (repeat false zeros ++ repeat true ones)) = zeros.
Proof.
  intros above Ho. revert above. induction zeros as [|zeros IH]; intros above.
  - simpl. clear Ho. revert above. induction ones as [|ones IH]; intros above; auto.
    cbn [repeat leaf_column negb andb app]. apply IH.
  - cbn [repeat app leaf_column]. rewrite app_length, IH.
    assert (existsb id (repeat false zeros ++ repeat true ones) = true) as ->; [|reflexivity].
    rewrite existsb_app. apply orb_true_iff. right. destruct ones; [lia | reflexivity].
Qed.

Lemma smooth_largest height zeros : (zeros < height)%nat ->
  (forall item, (item - 1 < length (leaves height zeros))%nat ->
    (length (smooth_column height zeros item) <= zeros)%nat) /\
  length (smooth_column height zeros 1) = zeros.
Proof.
  intros H. unfold smooth_column. split.
  - intros item Hi. destruct (leaves_shape height zeros _ (nth_In _ [] Hi)) as [_ Z].
    eapply Nat.le_trans; [apply leaf_column_length|]. now rewrite Z.
  - destruct (first_leaf height zeros ltac:(lia)) as [rest ->]. apply first_leaf_column. lia.
Qed.

(* As many leaves as there are ways to place the zeros. *)
Lemma leaves_pascal height zeros : length (leaves (S height) (S zeros)) =
  (length (leaves height zeros) + length (leaves height (S zeros)))%nat.
Proof. cbn [leaves]. now rewrite app_length, !map_length. Qed.

(* Range trees. *)
Lemma range_row_levels radices : forall level low high w n,
  In (w, n) (range_row radices level low high) -> (level <= fst n)%nat.
Proof.
  induction radices as [|k radices IH]; intros level low high w n H; cbn [range_row] in H; cbv zeta in H.
  - apply in_map_iff in H as [p [E _]]. injection E as <- <-. simpl. lia.
  - destruct (_ <=? _).
    + apply in_app_iff in H as [H | H]; [|apply in_app_iff in H as [H | H]].
      1, 2: apply in_map_iff in H as [p [E _]]; injection E as <- <-; simpl; lia.
      specialize (IH _ _ _ _ _ H). lia.
    + apply in_map_iff in H as [p [E _]]. injection E as <- <-. simpl. lia.
Qed.

Lemma range_column_levels radices : forall level c n,
  In n (range_column radices level c) -> (level <= fst n)%nat.
Proof.
  induction radices as [|k radices IH]; intros level c n H; cbn [range_column] in H.
  - destruct H as [<- | []]. simpl. lia.
  - destruct H as [<- | H]; [simpl; lia|]. specialize (IH _ _ _ H). lia.
Qed.

Lemma range_product radices : forall level low high c, (forall k, In k radices -> 0 < k) ->
  read (range_row radices level low high) (entry same_node (range_column radices level c)) =
  if (low <=? c) && (c <? high) then 1 else 0.
Proof.
  assert (forall a b c : Z, (if (a - 1 <? c) && (c <=? b - 1) then 1 else 0) =
    if (a <=? c) && (c <? b) then 1 else 0) as D.
  { intros a b c. destruct (Z.ltb_spec (a - 1) c), (Z.leb_spec c (b - 1)), (Z.leb_spec a c),
      (Z.ltb_spec c b); simpl; auto; lia. }
  induction radices as [|k radices IH]; intros level low high c HK; cbn [range_row range_column]; cbv zeta.
  - rewrite read_level. apply D.
  - assert (0 < k) as Hk by (apply HK; now left).
    assert (forall j, In j radices -> 0 < j) as HK' by (intros; apply HK; now right).
    set (above := range_column radices (S level) (c / k)).
    assert (forall r, read r (entry same_node ((level, c) :: above)) =
      read r (entry same_node [(level, c)]) + read r (entry same_node above)) as E.
    { intros r. change ((level, c) :: above) with ([(level, c)] ++ above). apply read_entry_app. }
    assert (forall w a b, read (map (fun p => (w, (level, p))) (between a b)) (entry same_node above) = 0) as L.
    { intros. apply (same_level_only _ (S level)); [apply range_column_levels | lia]. }
    set (first := - (- low / k)). set (last := high / k).
    destruct (Z.leb_spec first last) as [Hf | Hf].
    + rewrite !read_app, !E, !L, !read_level. unfold above. rewrite IH by auto.
      assert (read (range_row radices (S level) first last) (entry same_node [(level, c)]) = 0) as ->.
      { apply read_0. intros w n Hr [<- | []]. apply range_row_levels in Hr. simpl in Hr. lia. }
      assert (first <= c / k <-> k * first <= c) as H1.
      { split; intros H; [|apply Z.div_le_lower_bound; lia].
        pose proof (Z.mul_div_le c k Hk). nia. }
      assert (c / k < last <-> c < k * last) as H2.
      { split; intros H; [|apply Z.div_lt_upper_bound; lia].
        pose proof (Z.mul_succ_div_gt c k Hk). nia. }
      assert (low <= k * first) as H3 by (unfold first; pose proof (Z.mul_div_le (- low) k Hk); nia).
      assert (k * last <= high) as H4 by (unfold last; apply Z.mul_div_le; lia).
      assert (k * first <= k * last) as H5 by nia.
      destruct (Z.ltb_spec (low - 1) c), (Z.leb_spec c (k * first - 1)),
        (Z.ltb_spec (k * last - 1) c), (Z.leb_spec c (high - 1)), (Z.leb_spec first (c / k)),
        (Z.ltb_spec (c / k) last), (Z.leb_spec low c), (Z.ltb_spec c high); simpl; lia.
    + rewrite E, L, read_level, D. lia.
Qed.

Lemma range_length radices : forall level cell,
  length (range_column radices level cell) = S (length radices).
Proof.
  induction radices as [|k radices IH]; intros; cbn [range_column length]; auto.
Qed.
